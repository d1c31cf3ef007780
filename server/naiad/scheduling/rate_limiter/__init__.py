"""The rate limiter: what there is of each resource, which instance is next, and the object that grants resources to instances."""
