"""The operator with many services on a real API server: `make bench-operator`."""
