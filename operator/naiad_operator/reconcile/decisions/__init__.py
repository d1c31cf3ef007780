"""What a reconcile decides, as pure functions: what should exist, the writes that are needed, and which Events say so."""
