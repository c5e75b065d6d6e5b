"""Authentication: signing keys, tokens, passwords, API keys. Statements are in repositories."""
