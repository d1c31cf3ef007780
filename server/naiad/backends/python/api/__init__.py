"""What models see as `triton_python_backend_utils` (section 15), for a thread of the server and for a worker process alike.

Limits, so that a worker can import this in the interpreter of a model's own environment: the standard library and numpy only,
nothing of the server but this package, and Python 3.8: annotations that 3.8 cannot evaluate are quoted, and tests hold the
package to that.
"""
