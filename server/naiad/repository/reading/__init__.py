"""How the stores are listed and read, in threads of their own, and a whole repository copied."""
