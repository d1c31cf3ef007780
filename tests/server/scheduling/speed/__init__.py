"""How fast instances are: estimates, deadlines, and fast and slow instances of one model."""
