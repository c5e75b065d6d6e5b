"""What callers in Python use: commit, run, log, check, without a terminal. Nothing here prints.

The command line, the pytest plug-in and `from theatre import …` (docs/python.md) stand on it.
"""
