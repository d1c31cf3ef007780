"""Follows requests for traces, and for the access log as well where there is one: an `Observer`."""

import collections.abc

from naiad.core.clock import Clock
from naiad.core.inference import RequestContext
from naiad.protocol.access_log import AccessObserver
from naiad.protocol.observer import TRACEPARENT, TRACESTATE, Ended, HeaderLookup, trace_parent
from naiad.tracing.context import TracedContext
from naiad.tracing.tracer import Tracer


class TraceObserver:
    """Gives requests a context that decides whether they are traced, while any may be.

    Args:
        protocol: HTTP or GRPC.
        log: gets every request, traced or not; None: there is no access log.
    """

    def __init__(
        self, tracer: Tracer, *, protocol: str, log: AccessObserver | None, clock: Clock
    ) -> None:
        self._tracer = tracer
        self._protocol = protocol
        self._log = log
        self.records = log is not None
        self.now_ns = clock.monotonic_ns

    def follows(self, header: HeaderLookup) -> bool:
        """See `Observer`. What is not followed the tracer learns by `Tracer.passed`."""
        tracer = self._tracer
        return (
            tracer.due
            or self._log is not None
            or (tracer.forces and header(TRACEPARENT) is not None)
        )

    def follow(
        self, headers: collections.abc.Mapping[bytes, bytes], received_ns: int, read_ns: int = 0
    ) -> RequestContext | None:
        """See `Observer`."""
        tracer = self._tracer
        if self._log is None:
            setting = tracer.everything
            if setting is not None:  # nothing reads the headers
                return TracedContext(
                    received_ns, lean=read_ns > 0, read_ns=read_ns, tracer=tracer, protocol=self._protocol, setting=setting,
                )  # fmt: skip
            if not (tracer.due or tracer.forces):  # as `follows`, without the call
                return None
        return self.begin(headers.get, received_ns, 0) if self.follows(headers.get) else None

    def begin(self, header: HeaderLookup, received_ns: int, size: int) -> RequestContext:
        """See `Observer`."""
        tracer, trace = self._tracer, None
        if tracer.forces or self._log is not None:  # nothing else reads it
            traceparent = header(TRACEPARENT)
            if traceparent is not None:
                trace = trace_parent(traceparent, header(TRACESTATE))
        if not tracer.active:
            return RequestContext(received_ns, size, trace=trace)
        return TracedContext(received_ns, size, trace=trace, tracer=tracer, protocol=self._protocol)

    def end(self, ended: Ended) -> None:
        """See `Observer`."""
        if self._log is None:
            self.finish(ended.context)
            return
        self._log.end(ended)
        ended.context.finish()

    def finish(self, context: RequestContext) -> None:
        """See `Observer`."""
        context.sent_ns = self.now_ns()
        context.finish()
