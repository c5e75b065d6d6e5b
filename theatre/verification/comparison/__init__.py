"""Several oracles on the same ground truth: how far they stand apart, change by change."""
