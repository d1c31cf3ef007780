"""Naiad's server: runs a Triton model repository and speaks KServe v2 over HTTP and gRPC."""

__version__ = "0.2.0"
