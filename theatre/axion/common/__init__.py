"""What every part of the audit shares: canonical JSON, hashes, schemas, errors, draws."""
