"""gRPC's interop service on the native engine, and clients of other implementations against it."""
