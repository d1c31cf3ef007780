"""Clients' memory on GPUs: a process with a CUDA context opens and copies it for the server, which has none."""
