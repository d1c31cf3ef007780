"""Replies to HTTP requests that were sent before: the same bytes again, or the same bytes with another id.

Clients give each request an id of its own, which changes nothing in the reply but the id. So a request is looked up by its body without the id, and the
reply is kept without it. Where the id stands is decided by one search, and whether it is the request's id when the reply is kept: without a backslash in the JSON
a text has one spelling, so what was decoded as the id and stands there once, in quotes, is the id. Ids of another length are kept by themselves, because the header
that gives the length of the JSON depends on it.
"""

import re

import msgspec

from naiad.core.record import Record
from naiad.core.response import InferResponse
from naiad.core.tensor import Texts
from naiad.engine.api import KnownReplies
from naiad.protocol.http.codec import compression
from naiad.protocol.http.message import HttpReply, OnReply

Form = tuple[bytes | int | None, ...]
"""The headers Inference-Header-Content-Length and Accept-Encoding, and the length of the id if the request has one."""

_SEARCHED = 1 << 12
"""Bytes in which an id is searched."""

_MEMBER = b'"id"'
_START = b'{"id":"'
"""How the JSON of a reply with an id begins."""

_ID = re.compile(rb'"id" ?: ?"([ !#-\[\]-~]{1,256})"').match
"""A member with an id that is written as it is: ASCII without quotes, backslashes and control characters."""

_OK = 200


class _Sought(Record, frozen=True):
    """What a request with an id is looked up by.

    Attributes:
        body: without the id.
        form: of the request, with the length of the id.
        id: of the request.
    """

    body: bytes
    form: Form
    id: bytes


class _WithoutId(Record, frozen=True):
    """A reply whose JSON has the id of the request as its first member.

    Attributes:
        rest: its JSON behind the id, from the quote on.
        reply: to another request.
    """

    rest: bytes
    reply: HttpReply

    def to(self, request_id: bytes) -> HttpReply:
        """The reply to a request with this id."""
        reply = self.reply
        text = b"".join((_START, request_id, self.rest))
        return HttpReply(
            reply.status, reply.headers, (text, *reply.body[1:]), request_id.decode("ascii")
        )


def find(replies: KnownReplies, body: bytes, form: Form) -> HttpReply | None:
    """The reply to a request that was sent before; None if it is not known.

    Args:
        replies: those of the model version.
        body: of the request.
        form: the two headers.
    """
    at = body.find(_MEMBER, 0, _SEARCHED)
    found = None if at < 0 else _ID(body, at)
    if found is None:
        reply: HttpReply | None = replies.get(body, form)
        return reply
    start, end = found.span(1)
    # As `_without_id`, without an object for it.
    known: _WithoutId | None = replies.get(body[:start] + body[end:], (*form, end - start))
    return None if known is None else known.to(found[1])


def _without_id(body: bytes, form: Form, at: int) -> _Sought | None:
    """What a request is looked up by in whose body a member with an id perhaps begins here."""
    found = _ID(body, at)
    if found is None:
        return None
    start, end = found.span(1)
    return _Sought(body[:start] + body[end:], (*form, end - start), found[1])


class Keeping(msgspec.Struct, eq=False):
    """An `OnReply` that keeps the reply for the same request again, if it was written of a response from the cache.

    Attributes:
        on_reply: gets the reply.
        replies: where it is kept.
        body: of the request.
        form: the two headers.
        response: what the reply is written of; None if it is not from the cache.
    """

    on_reply: OnReply
    replies: KnownReplies
    body: bytes
    form: Form
    response: InferResponse | None = None

    def __call__(self, reply: HttpReply) -> None:
        """See `OnReply`."""
        response = self.response
        if response is not None and response.texts is not None and reply.status == _OK:
            self._keep(reply, response.id, response.texts)
        self.on_reply(reply)

    def _keep(self, reply: HttpReply, request_id: str, texts: Texts) -> None:
        at = self.body.find(_MEMBER, 0, _SEARCHED)
        wanted = None if at < 0 else _without_id(self.body, self.form, at)
        size = compression.size_of(reply)
        if wanted is None:
            if not request_id:
                self.replies.keep(self.body, self.form, reply, size, texts)
            return
        start = _START + wanted.id
        text = bytes(reply.body[0])
        # What is compressed begins otherwise.
        if (
            wanted.id == request_id.encode()
            and _is_the_id(wanted)
            and text.startswith(start + b'"')
        ):
            others = msgspec.structs.replace(reply, body=(b"", *reply.body[1:]))
            kept = _WithoutId(text[len(start) :], others)
            self.replies.keep(wanted.body, wanted.form, kept, size, texts)


def _is_the_id(wanted: _Sought) -> bool:
    """Whether what stands where the id was searched is the id of the request, which has this value."""
    body, header = wanted.body, wanted.form[0]
    text = body if header is None else body[: int(header) - len(wanted.id)]
    return _MEMBER in text and b"\\" not in text and b'"%b"' % wanted.id not in text
