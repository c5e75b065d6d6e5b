"""The audit trail, read by itself."""
