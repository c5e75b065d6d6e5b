"""What every route stands on: access, problems, bodies, limits, caching, OpenAPI."""
