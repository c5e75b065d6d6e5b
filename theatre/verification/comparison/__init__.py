"""Several oracles on the same ground truth: their differences, change by change."""
