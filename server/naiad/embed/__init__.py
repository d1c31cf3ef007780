"""The server as a library: models that a program calls with arrays, without a socket (docs/library.md). `naiad` gives its names."""
