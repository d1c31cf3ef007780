"""The reconcile of one service: plan the changes (pure), apply them, and write the status."""
