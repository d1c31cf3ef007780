"""Builds the manifests of a service's children. Pure functions from the spec and the cluster facts."""

from naiad_operator.builders.bundle import build
from naiad_operator.builders.kinds import KINDS

__all__ = ["KINDS", "build"]
