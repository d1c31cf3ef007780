"""What runs in a worker process; the link to its server is in `hosts.link`.

Limits, so that a worker can live in the interpreter of a model's own environment: the standard library and numpy only, nothing of
the server but `backends.python.api` and what is beside it for workers, and Python 3.8: annotations that 3.8 cannot evaluate are
quoted, and tests hold the package to that.
"""
