"""The server under load, beside Triton where it serves the same model: `make bench`."""
