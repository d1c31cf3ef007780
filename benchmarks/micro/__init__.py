"""Microbenchmarks: what single parts of the server cost, without sockets or without a model."""
