"""What a service is made of: pure functions from spec and facts to manifests."""

from naiad_operator.builders.bundle import build
from naiad_operator.builders.kinds import KINDS

__all__ = ["KINDS", "build"]
