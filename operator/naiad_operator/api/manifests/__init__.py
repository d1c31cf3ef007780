"""Manifests as text and as fields of any form: YAML, the documents of a file with their lines."""
