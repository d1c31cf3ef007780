"""What a real cluster takes: `make bench-cluster`."""
