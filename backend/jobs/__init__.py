"""The queue of runs: jobs in the database, and the workers that take them up (docs/adr/0114)."""
