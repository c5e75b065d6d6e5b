"""The database: models, sessions, migrations, and the embedded server."""
