"""Who asks: signing keys, tokens, passwords, keys for tools. No statements: see repositories."""
