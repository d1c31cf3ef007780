"""Infer and generate bodies between bytes and core types."""
