"""Converts InferenceServices of KServe: `service` is the entry, the other modules are parts of it."""
