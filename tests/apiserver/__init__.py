"""A real Kubernetes API server for tests: binaries, certificates, start and stop, and what a node would write."""
