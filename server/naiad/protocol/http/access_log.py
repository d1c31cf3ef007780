"""HTTP's entries in the access log."""

from naiad.core.context import RequestContext
from naiad.protocol.access_log import AccessEntry, Recorder
from naiad.protocol.http.message import Headers, HttpReply
from naiad.protocol.http.transport.head import RequestHead
from naiad.protocol.trace_context import trace_id_of


class AccessRecorder(Recorder):
    """Makes the entries of a service's connections."""

    def context(self, headers: Headers, received_ns: int, size: int) -> RequestContext:
        """The context of a request with these headers, and a body of `size` bytes."""
        traceparent = headers.get(b"traceparent")
        trace_id = "" if traceparent is None else trace_id_of(traceparent)
        return RequestContext(received_ns, size, trace_id=trace_id)

    def record(
        self,
        head: RequestHead,
        peer: tuple[str, int] | None,
        reply: HttpReply,
        context: RequestContext,
    ) -> None:
        """A response was sent: log its entry.

        Args:
            head: the request's.
            peer: the client's host and port; None if it is unknown.
            reply: what was sent.
            context: the request's.
        """
        context.request_id = reply.request_id
        self.write(
            AccessEntry(
                "http",
                f"{peer[0]}:{peer[1]}" if peer else "",
                "HEAD" if head.head_only else head.method.decode("latin-1"),
                head.target.decode("latin-1"),
                reply.status,
                context,
            )
        )
