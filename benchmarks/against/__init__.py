"""This checkout of the server beside another one: `make bench-against`."""
