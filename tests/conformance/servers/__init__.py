"""Both servers: what they load, and how scenarios change it."""
