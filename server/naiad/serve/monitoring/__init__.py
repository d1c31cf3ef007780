"""Measures the server and its machine: event loop, CPU, memory, GPUs."""
