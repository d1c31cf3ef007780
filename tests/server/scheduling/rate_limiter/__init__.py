"""The rate limiter: what there is of each resource, which instance is next, and what models see of it."""
