"""The service: it lends `theatre` a database, a user and a queue."""
