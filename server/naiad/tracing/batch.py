"""Batches that executed traced requests: one span for each batch, linked with the spans of its requests in both directions. Loop only."""

import weakref

import msgspec

from naiad.core.inference import ExecutionTimes


class BatchTrace(msgspec.Struct, eq=False, weakref=True):
    """An executed batch with at least one traced request.

    Attributes:
        execution: its times, which all its requests share.
        trace_id: the trace that its span belongs to: that of its first traced request.
        parent_id: the span of that request's model, which is above it.
        span_id: its own.
        members: trace and span of the model's work on each traced request.
    """

    execution: ExecutionTimes
    trace_id: int
    parent_id: int
    span_id: int
    members: list[tuple[int, int]]


class Batches:
    """The batches some of whose traces are still there."""

    def __init__(self) -> None:
        # By the identity of the times, which a batch that is there keeps alive.
        self._known: weakref.WeakValueDictionary[int, BatchTrace] = weakref.WeakValueDictionary()

    def add(
        self, execution: ExecutionTimes, trace_id: int, span_id: int, *, new_id: int
    ) -> BatchTrace:
        """The batch of a traced request.

        Args:
            execution: the batch's.
            trace_id: of the request.
            span_id: of the model's work on it.
            new_id: of the batch's span, if the request is the first one.
        """
        batch = self._known.get(id(execution))
        if batch is None:
            batch = BatchTrace(execution, trace_id, span_id, new_id, [])
            self._known[id(execution)] = batch
        batch.members.append((trace_id, span_id))
        return batch
