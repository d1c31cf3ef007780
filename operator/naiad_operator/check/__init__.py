"""The command `naiad-operator check`: validates files and prints the objects that the operator would create. Without a cluster."""

from naiad_operator.check.command import add_options, problems, run

__all__ = ["add_options", "problems", "run"]
