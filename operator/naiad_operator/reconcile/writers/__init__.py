"""What a reconcile writes: children, the status, and Events."""
