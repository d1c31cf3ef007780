"""`naiad check DIR …`: what the server would refuse in the models of a repository, in its words, without a server."""

from naiad.check.command import main

__all__ = ["main"]
