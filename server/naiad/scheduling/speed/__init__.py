"""What is known of how fast instances are, and what follows: how long a request would wait, and whether a batch waits for a faster instance."""
