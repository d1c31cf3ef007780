"""The instances of a model as schedulers see them: which are free, how fast they are, and what they need for a batch."""
