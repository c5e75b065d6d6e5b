"""The auditor on trial: planted corruptions, null edits, and what an auditor makes of them."""
