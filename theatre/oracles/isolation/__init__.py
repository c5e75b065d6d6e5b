"""Keeping local constructs from what they are asked about: means, launcher, canary (ADR 0178)."""
