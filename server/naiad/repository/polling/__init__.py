"""Control mode poll: finds what changed in the stores, decides what follows, and applies it."""
