"""The instances of a model version: where they run, how they are made, warmed up and changed."""
