"""Tier and certificate, and what else says something of all the other files."""
