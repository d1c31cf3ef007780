"""Computes a resource's status: a pure function of the spec and the observed objects."""

from naiad_operator.status.compute import compute, compute_bug, compute_invalid
from naiad_operator.status.observed import ApiError, Conflict, ModelReport, ModelState, Observed

__all__ = [
    "ApiError",
    "Conflict",
    "ModelReport",
    "ModelState",
    "Observed",
    "compute",
    "compute_bug",
    "compute_invalid",
]
