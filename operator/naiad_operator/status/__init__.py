"""What a resource's status says: a pure function from the spec and what was seen."""

from naiad_operator.status.observed import ApiError, Conflict, ModelState, Observed

__all__ = ["ApiError", "Conflict", "ModelState", "Observed"]
