"""The gRPC methods about the server and its models."""
