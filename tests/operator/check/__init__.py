"""`naiad-operator check`."""
