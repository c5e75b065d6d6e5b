"""The shipped computations over whole datasets, one file each."""
