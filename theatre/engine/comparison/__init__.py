"""Sealed runs of one dataset side by side."""

from theatre.engine.comparison.compare import compare_bundles, measure_difference, ranking
from theatre.engine.comparison.sealed_runs import find_differences, read_sealed_run

__all__ = [
    "compare_bundles",
    "find_differences",
    "measure_difference",
    "ranking",
    "read_sealed_run",
]
