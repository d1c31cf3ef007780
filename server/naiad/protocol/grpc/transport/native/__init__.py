"""gRPC on our own HTTP/2: no task, no future per unary call. `connection.py` is the way in."""
