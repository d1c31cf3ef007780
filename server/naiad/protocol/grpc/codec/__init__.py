"""ModelInfer messages between bytes and core types."""
