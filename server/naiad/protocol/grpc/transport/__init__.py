"""gRPC on grpc.aio: server, streams, credentials."""
