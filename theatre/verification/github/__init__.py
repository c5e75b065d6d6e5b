"""Ground truth from GitHub: merged pull requests, by REST, within its limits, resumable."""
