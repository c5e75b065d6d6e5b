"""HTTP: routers, what every request passes, and what every refusal looks like."""
