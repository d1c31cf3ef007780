"""Computes a resource's status: a pure function of the spec and the observed objects."""

from naiad_operator.status.compute import compute, compute_invalid
from naiad_operator.status.observed import ApiError, Conflict, ModelState, Observed

__all__ = ["ApiError", "Conflict", "ModelState", "Observed", "compute", "compute_invalid"]
