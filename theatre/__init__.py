"""Echelon Theatre: commit to a measurement, run the real construct, certify what was seen."""
