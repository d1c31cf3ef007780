"""Checks of a parsed config that need no model file: fields, tensors, file names, and what is not supported."""
