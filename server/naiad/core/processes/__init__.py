"""Processes and threads: how they start and end, and the memory that this one keeps."""
