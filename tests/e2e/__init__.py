"""Parts of the real cluster that need no cluster to be tested."""
