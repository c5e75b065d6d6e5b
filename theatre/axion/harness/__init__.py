"""Scenarios, probes, runs and reports."""
