"""Runs of theatres: started, leased, executed, completed."""
