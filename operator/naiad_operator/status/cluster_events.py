"""Reads the Events that other components of the cluster write."""

import collections.abc
import typing


def last_seen(event: collections.abc.Mapping[str, typing.Any]) -> str:
    """When what an Event says happened last, in UTC; "" if it does not say. Of the two versions of the API each has fields of its own."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )
    return str(next(filter(None, times), ""))
