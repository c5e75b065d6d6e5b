"""Debates as episodes of theatres: the runner `debate`, its scorers and its computations."""
