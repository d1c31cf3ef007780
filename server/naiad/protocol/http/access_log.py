"""HTTP's entries in the access log."""

from naiad.core.inference import Inference
from naiad.protocol.access_log import AccessEntry, Recorder
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.transport.head import RequestHead


class AccessRecorder(Recorder):
    """Makes the entries of a service's connections."""

    def record(
        self,
        head: RequestHead,
        peer: tuple[str, int] | None,
        reply: HttpReply,
        size: int,
        since_ns: int,
        *,
        received: int = 0,
        inference: Inference | None = None,
    ) -> None:
        """A reply was sent.

        Args:
            head: the request's.
            peer: the client's host and port.
            reply: what was sent.
            size: bytes of the reply's body that were sent.
            since_ns: the `stamp` of the request.
            received: bytes of the request's body.
            inference: what was asked of a model.
        """
        self.write(
            AccessEntry(
                "http",
                f"{peer[0]}:{peer[1]}" if peer else "",
                "HEAD" if head.head_only else head.method.decode("latin-1"),
                head.target.decode("latin-1"),
                reply.status,
                received,
                size,
                self.seconds_since(since_ns),
                reply.request_id,
                inference,
            )
        )
