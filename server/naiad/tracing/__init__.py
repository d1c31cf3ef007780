"""Triton's trace extension: which requests are traced, what is kept of them, and where it is written."""
