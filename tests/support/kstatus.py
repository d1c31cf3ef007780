"""What kstatus, the library of Flux and of kpt, says of a custom resource: its rules for kinds that it does not know, in Python."""

import collections.abc
import typing


def state(resource: collections.abc.Mapping[str, typing.Any]) -> str:
    """Current, InProgress, Failed or Terminating."""
    if resource["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = resource.get("status") or {}
    observed = status.get("observedGeneration")
    if observed is not None and observed != resource["metadata"].get("generation"):
        return "InProgress"
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"
