"""What a reconcile decides, as pure functions: what should exist, the writes that are needed, and what is told of them."""
