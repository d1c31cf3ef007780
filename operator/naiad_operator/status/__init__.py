"""What a resource's status says: a pure function from the spec and what was seen."""

from naiad_operator.status.compute import compute, compute_invalid
from naiad_operator.status.observed import ApiError, Conflict, ModelState, Observed

__all__ = ["ApiError", "Conflict", "ModelState", "Observed", "compute", "compute_invalid"]
