"""Replies that are known by the bytes of the request: as large as the room that entries leave, gone with their entries, and never those of another request."""

import asyncio
import json
import typing
import zlib
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from naiad.config.model_config import TensorSpec
from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.core.inference import Inference, RequestContext
from naiad.core.response import InferResponse
from naiad.core.tensor import Texts, object_array
from naiad.engine.instances.factory import ModelInstances
from naiad.engine.model import Model
from naiad.metrics.statistics import BatchTiming, ModelStatistics
from naiad.protocol import durations
from naiad.protocol.header_pattern import HeaderPattern
from naiad.protocol.http.inference import InferenceLimits, InferRoute
from naiad.protocol.http.message import HttpReply, HttpRequest
from naiad.response_cache.entry import CachedResponse
from naiad.response_cache.key import KeyMaker
from naiad.response_cache.local import LocalStore
from naiad.response_cache.replies import KnownReplies
from naiad.response_cache.scheduler import CachingScheduler
from naiad.scheduling.instances.resources import UnlimitedResources
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.tracing.settings import TraceOptions
from naiad.tracing.tracer import Tracer
from tests.server.backends.configs import tensor
from tests.support.inferences import make_config, make_spec

OVERHEAD = 512
FORM = (None, None)


def stored(size: int = 10_000, *, keys: str = "a") -> tuple[LocalStore, KnownReplies, Any]:
    """A store with an entry of 1000 bytes for each key, of the model "m"."""
    store = LocalStore(size)
    for key in keys:
        store.insert("m", key.encode(), CachedResponse([], {}, 1000, Texts()))
    replies = KnownReplies("m", store, statistics=ModelStatistics(), clock=ManualClock())

    def keep(body: bytes, size: int, key: str = "a", form: Any = FORM) -> None:
        entry = store.get(key.encode())
        assert entry is not None
        replies.keep(body, form, body.upper(), size, entry.texts)

    return store, replies, keep


def test_a_reply_is_that_to_the_same_body_in_the_same_form() -> None:
    store, replies, keep = stored()
    keep(b"body", 100)
    assert replies.get(b"body", FORM) == b"BODY"
    assert replies.get(b"bodies", FORM) is None
    assert replies.get(b"body", (b"4", None)) is None
    other = KnownReplies("n", store, statistics=ModelStatistics(), clock=ManualClock())
    assert other.get(b"body", FORM) is None


def test_long_bodies_are_compared_as_a_whole() -> None:
    _, replies, keep = stored(1_000_000)
    long = bytearray(100_000)
    keep(bytes(long), 100)
    assert replies.get(bytes(long), FORM) is not None
    long[70_000] = 1
    assert replies.get(bytes(long), FORM) is None
    keep(bytes(long), 100)
    assert replies.get(bytes(long), FORM) is not None


def test_replies_take_the_room_that_entries_leave_and_the_oldest_goes_first() -> None:
    store, replies, keep = stored(1000 + 3 * (OVERHEAD + 104))
    for body in (b"four", b"five", b"nine"):
        keep(body, 100)
    keep(b"last", 100)
    assert [replies.get(each, FORM) is None for each in (b"four", b"five", b"last")] == [True, False, False]  # fmt: skip
    assert (store.used, store.replies.used) == (1000, 3 * (OVERHEAD + 104))
    store.insert("m", b"b", CachedResponse([], {}, 1000, Texts()))
    assert (len(store), store.evicted, len(store.replies)) == (2, 0, 1)
    keep(b"huge", 10_000)
    assert len(store.replies) == 1
    store.insert("m", b"c", CachedResponse([], {}, 2000, Texts()))
    assert (store.get(b"a"), store.evicted, len(store.replies), store.replies.used) == (None, 2, 0, 0)  # fmt: skip


def test_a_reply_that_is_written_again_takes_the_place_of_the_first() -> None:
    store, _, keep = stored()
    keep(b"body", 100)
    keep(b"body", 200)
    assert (len(store.replies), store.replies.used) == (1, OVERHEAD + 204)


@pytest.mark.parametrize("how", ["evicted", "unloaded", "closed"])
def test_a_reply_goes_with_its_entry_and_does_not_come_after_it(how: str) -> None:
    store, replies, keep = stored(4000, keys="ab")
    entry = store.get(b"a")
    store.get(b"b")
    assert entry is not None
    keep(b"of b", 10, "b")
    keep(b"body", 10)
    store.get(b"b")
    if how == "evicted":
        store.insert("m", b"c", CachedResponse([], {}, 2500, Texts()))
    elif how == "unloaded":
        store.forget("m")
    else:
        asyncio.run(store.close())
    assert replies.get(b"body", FORM) is None
    replies.keep(b"body", FORM, b"late", 10, entry.texts)
    assert replies.get(b"body", FORM) is None
    assert how == "evicted" or store.used == store.replies.used == 0
    # Another response of the same request is another entry.
    store.insert("m", b"a", CachedResponse([], {}, 100, Texts()))
    replies.keep(b"body", FORM, b"late", 10, entry.texts)
    assert replies.get(b"body", FORM) is None


def test_a_reply_that_is_found_keeps_its_entry_from_being_the_least_recently_used() -> None:
    store, replies, keep = stored(4000, keys="ab")
    keep(b"body", 10)
    store.get(b"b")
    assert replies.get(b"body", FORM) is not None
    store.insert("m", b"c", CachedResponse([], {}, 2500, Texts()))
    assert (store.get(b"a") is None, store.get(b"b") is None) == (False, True)


class Echo:
    """A scheduler that executes at once: Y is the input, S its numbers as text, N how many were executed."""

    def __init__(self) -> None:
        self.statistics = ModelStatistics()
        self._dispatcher = ResponseDispatcher(
            model="m", version=1, statistics=self.statistics, clock=ManualClock()
        )

    def submit(self, inference: Inference) -> None:
        request = inference.request
        array = request.inputs[0].array
        texts = object_array([b"%g" % value for value in array.flat]).reshape(array.shape)
        made = {"Y": tensor("Y", array * 2, datatypes.FP32), "S": tensor("S", texts, datatypes.BYTES)}  # fmt: skip
        names = request.output_names or list(made)
        outputs = [made[name] for name in made if name in names]
        response = InferResponse("m", 1, request.id, outputs, {"of": "m"})
        self._dispatcher.respond_composed(
            inference, response, queue_ns=0, timing=BatchTiming(0, 0, 0), streams=False
        )

    async def stop(self) -> None:
        pass


class Server:
    """The route of a model with a response cache; with `known`, replies are known by the bytes of requests."""

    def __init__(self, *, known: bool, full: bool = False, size: int = 1 << 20, ordered: bool = False) -> None:  # fmt: skip
        self.store = LocalStore(size)
        echo: Any = Echo()
        caching = CachingScheduler(
            echo, model="m", version=1, owner="m1", store=self.store, make_key=KeyMaker(b"m1", full=full), statistics=echo.statistics,
            preserve_ordering=ordered, clock=ManualClock(),
        )  # fmt: skip
        outputs = (make_spec("Y", -1, -1), TensorSpec(name="S", datatype=datatypes.BYTES, dims=(-1, -1)))  # fmt: skip
        self.model = Model(
            config=make_config(max_batch_size=0, inputs=[make_spec("X", -1, -1)], outputs=outputs),
            version=1, scheduler=caching, instances=ModelInstances(), resources=UnlimitedResources(), clock=ManualClock(),
            replies=caching.replies if known else None,
        )  # fmt: skip
        self.forwarded: HeaderPattern | None = None
        self.tracer = Tracer(TraceOptions(), clock=ManualClock())

    def look_up(self, name: str, version: int) -> Model:
        return self.model

    def ask(self, request: HttpRequest) -> tuple[Any, ...]:
        """Status, headers and body of the reply."""
        limits = InferenceLimits(max_input_size=1 << 20, forwarded=self.forwarded)
        replies: list[HttpReply] = []
        route = InferRoute(typing.cast("Any", self), limits, model="m")
        route(request, replies.append)
        (reply,) = replies
        return reply.status, reply.headers, b"".join(reply.body), reply.request_id

    @property
    def counts(self) -> dict[str, int]:
        return {name: count for name, (count, _) in durations.of_model(self.model.statistics).items()}  # fmt: skip


def http_request(
    *,
    values: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0),
    shape: tuple[int, ...] = (1, 4),
    request_id: str = "",
    binary: bool = False,
    outputs: tuple[tuple[str, int], ...] = (),
    parameters: dict[str, Any] | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    packed: bool = False,
) -> HttpRequest:
    """A request; `outputs` are names with the number of classes, -1 for binary data and 0 for JSON."""
    raw = np.array(values, np.float32).tobytes()
    given: dict[str, Any] = {"name": "X", "datatype": "FP32", "shape": shape}
    given |= {"parameters": {"binary_data_size": len(raw)}} if binary else {"data": values}
    document: dict[str, Any] = {"id": request_id} if request_id else {}
    document["inputs"] = [given]
    if parameters:
        document["parameters"] = parameters
    if outputs:
        document["outputs"] = [
            {"name": name, "parameters": {"binary_data": True} if how < 0 else {"classification": how} if how else {}}
            for name, how in outputs
        ]  # fmt: skip
    text = json.dumps(document).encode()
    found = dict(headers)
    if binary:
        found[b"inference-header-content-length"] = b"%d" % len(text)
        text += raw
    if packed:
        found[b"content-encoding"] = b"deflate"
        text = zlib.compress(text)
    return HttpRequest(b"POST", "/v2/models/m/infer", found, text)


LONG = tuple(map(float, range(200, 600)))

REQUESTS = st.builds(
    http_request,
    values=st.sampled_from([(1.0, 2.0, 3.0, 4.0), (4.0, 3.0, 2.0, 1.0), LONG]),
    shape=st.sampled_from([(1, 4), (2, 2), (20, 20)]),
    request_id=st.sampled_from(["", "", "a", "b", "other", 'ot"er', "\\", "é", "X", "0a b~"]),
    binary=st.booleans(),
    outputs=st.sampled_from([(), (("Y", 0),), (("Y", -1),), (("S", -1), ("Y", 2)), (("S", 0),), (("Y", 2),), (("Q", 0),)]),
    parameters=st.sampled_from(
        [None, {"p": 1}, {"p": "a"}, {"id": "b"}, {"binary_data_output": True}, {"priority": 3}]
    ),
    headers=st.sampled_from([(), ((b"accept-encoding", b"gzip"),), ((b"x-a", b"1"),)]),
    packed=st.booleans(),
)  # fmt: skip


@hypothesis.given(
    st.lists(st.tuples(REQUESTS, st.integers(1, 3)), max_size=12),
    st.booleans(),
    st.sampled_from([2500, 6000, 1 << 20]),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_any_requests_get_what_they_get_without_known_replies_and_count_as_much(
    requests: list[tuple[HttpRequest, int]],
    full: bool,  # noqa: FBT001 - hypothesis'
    size: int,
) -> None:
    servers = [Server(known=known, full=full, size=size) for known in (True, False)]
    for request, times in (*requests, *requests):
        for _ in range(times):
            one, other = (server.ask(request) for server in servers)
            assert one == other
    assert servers[0].counts == servers[1].counts
    assert servers[0].store.used + servers[0].store.replies.used <= size


@hypothesis.given(REQUESTS)
@hypothesis.settings(max_examples=50, deadline=None)
def test_the_response_of_a_hit_is_that_of_the_miss_but_for_the_id(request: HttpRequest) -> None:
    server = Server(known=True)
    miss = server.ask(request)
    hits = [server.ask(request) for _ in range(3)]
    assert hits == [miss] * 3
    if miss[0] == 200 and b'"id": "a"' in request.body:
        other = HttpRequest(request.method, request.path, request.headers, request.body.replace(b'"id": "a"', b'"id": "b"'))  # fmt: skip
        status, headers, body, request_id = server.ask(other)
        assert (request_id, status) == (miss[3].replace("a", "b"), miss[0])
        if b"accept-encoding" not in request.headers:
            assert (headers, body) == (miss[1], miss[2].replace(b'"id":"a"', b'"id":"b"'))


def test_the_third_request_is_answered_from_known_replies_and_counts_as_a_hit() -> None:
    server = Server(known=True)
    for _ in range(5):
        server.ask(http_request(binary=True))
    assert len(server.store.replies) == 1
    assert (server.counts["success"], server.counts["cache_hit"], server.counts["cache_miss"]) == (5, 4, 1)  # fmt: skip


@pytest.mark.parametrize(
    "request_",
    [
        http_request(request_id="é"),
        http_request(request_id="X"),
        http_request(request_id="a", parameters={"p": "\\"}),
        http_request(
            request_id="a", headers=((b"accept-encoding", b"gzip"),), values=LONG, shape=(20, 20)
        ),
        http_request(packed=True),
        http_request(values=(1.0,)),
    ],
    ids=[
        "an id that may be written otherwise",
        "an id that is found twice",
        "a backslash",
        "an id in a compressed reply",
        "compressed",
        "an error",
    ],
)
def test_what_is_not_kept(request_: HttpRequest) -> None:
    server = Server(known=True)
    for _ in range(3):
        server.ask(request_)
    assert len(server.store.replies) == 0


@pytest.mark.parametrize("binary", [False, True])
def test_requests_with_other_ids_of_the_same_length_are_known_without_being_decoded(
    monkeypatch: pytest.MonkeyPatch,
    binary: bool,  # noqa: FBT001 - pytest's
) -> None:
    server = Server(known=True)
    first, second = (
        server.ask(http_request(request_id=one, binary=binary)) for one in ("a1", "b2")
    )
    longer = server.ask(http_request(request_id="abc", binary=binary))
    assert len(server.store.replies) == 2
    monkeypatch.setattr("naiad.protocol.http.inference.typed_json.decode", None)
    status, headers, body, request_id = server.ask(http_request(request_id="c3", binary=binary))
    assert (status, headers, request_id) == (200, first[1], "c3")
    assert body == first[2].replace(b'"a1"', b'"c3"') == second[2].replace(b'"b2"', b'"c3"')
    assert server.ask(http_request(request_id="xyz", binary=binary))[2] == longer[2].replace(
        b"abc", b"xyz"
    )
    assert server.counts["cache_hit"] == 4


def test_a_member_named_id_that_is_not_the_id_of_the_request_changes_what_is_asked() -> None:
    server, plain = Server(known=True), Server(known=False)
    hidden = b'{"i\\u0064": "a1", "parameters": {"id": "%b"}, ' + http_request().body[1:]
    after = http_request().body[:-1] + b', "parameters": {"id": "%b"}, "id": "a1"}'
    for text in (hidden, after):
        for value in (b"a1", b"a1", b"b2", b"a1"):
            request = HttpRequest(b"POST", "/v2/models/m/infer", {}, text % value)
            assert server.ask(request) == plain.ask(request)


def test_nothing_is_kept_for_an_access_log_forwarded_headers_or_an_order() -> None:
    logged, forwarding, ordered = Server(known=True), Server(known=True), Server(known=True, ordered=True)  # fmt: skip
    forwarding.forwarded = HeaderPattern(".*", option="--http-header-forward-pattern")
    plain = http_request()
    for _ in range(3):
        context = RequestContext(0)
        logged.ask(HttpRequest(plain.method, plain.path, plain.headers, plain.body, context))
        assert context.inference is not None
        forwarding.ask(plain)
        ordered.ask(plain)
    assert [len(each.store.replies) for each in (logged, forwarding, ordered)] == [0, 0, 0]


async def test_a_model_that_stops_has_no_known_replies() -> None:
    server = Server(known=True)
    for _ in range(3):
        server.ask(http_request())
    await server.model.stop()
    assert server.ask(http_request())[0] == 503
    assert len(server.store) == 0


def test_one_body_with_other_headers_is_another_request() -> None:
    server = Server(known=True)
    long = http_request(values=tuple(map(float, range(400))), shape=(20, 20))
    binary = http_request(binary=True)
    for _ in range(3):
        assert b"Content-Encoding" not in dict(server.ask(long)[1])
        assert server.ask(binary)[0] == 200
    zipped = HttpRequest(long.method, long.path, {b"accept-encoding": b"gzip"}, long.body)
    for _ in range(3):
        assert dict(server.ask(zipped)[1])[b"Content-Encoding"] == b"gzip"
    assert server.ask(HttpRequest(binary.method, binary.path, {}, binary.body))[0] == 500
