"""Verifications of repositories: requested, ingested, run."""
