"""Sealed runs of one dataset side by side."""

from theatre.engine.comparison.compare import compare_bundles
from theatre.engine.comparison.sealed_runs import find_differences

__all__ = ["compare_bundles", "find_differences"]
