"""The model repository: which models there are, which of their versions are served, and in what state they are."""
