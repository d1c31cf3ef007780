"""A long run under kills, cancels and reloads: nothing hangs, nothing is lost that need not be, nothing is left behind."""
