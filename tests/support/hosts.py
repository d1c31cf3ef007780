"""Hosts and instances that do what a test tells them: no thread, no sleep, every batch on record."""

import asyncio
import collections.abc

from typing_extensions import override

from naiad.backends.instance import Execution, Instance, InstanceSpec, Response
from naiad.config.model_config import InstanceKind
from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import InferenceError
from naiad.hosts.host import BatchOutcome, HostedInstance, OnDeferred, OnOutcome
from tests.support.inferences import make_response

Script = collections.abc.Callable[
    [collections.abc.Sequence[Inference]], collections.abc.Sequence[InferResponse | None]
]
Respond = collections.abc.Callable[[Inference], InferResponse]


def answer_all(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
    """A success for every request."""
    return [make_response(inference) for inference in batch]


class ScriptedHost:
    """Implements `Host`: a batch is in execution until the test ends it, or for `takes_s` seconds of the loop's time.

    Attributes:
        batches: every batch that began, in order.
        prefetches: see `Host`.
        out: the batch in execution; None when it is free.
        prefetched: the batch that begins next; None if there is none.
        takes_s: None: the test calls `finish` or `fail`.
        respond: makes the response to each inference.
        usable: tells the scheduler whether it can run batches; the test calls it.
        closed: how often it was closed.
        aborted: why it was aborted, each time.
    """

    usable: collections.abc.Callable[[bool], None]

    def __init__(
        self,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        name: str = "m_0_0",
        takes_s: float | None = None,
        respond: Respond = make_response,
        prefetches: bool = False,
    ) -> None:
        self.name = name
        self.batches: list[list[Inference]] = []
        self.prefetches = prefetches
        self.out: list[Inference] | None = None
        self.prefetched: list[Inference] | None = None
        self.takes_s = takes_s
        self.respond = respond
        self.on_deferred: OnDeferred | None = None
        self.closed = 0
        self.aborted: list[str] = []
        self._clock = clock
        self._loop = loop
        self._on_outcome: OnOutcome | None = None
        self._on_prefetched: OnOutcome | None = None
        self._started_ns = 0

    @property
    def ids(self) -> list[list[str]]:
        """The request ids of every batch."""
        return [[inference.request.id for inference in batch] for batch in self.batches]

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        assert not self.closed, "closed"
        if self.out is not None:
            assert self.prefetches, "a batch is in execution"
            assert self.prefetched is None, "two batches are there"
            self.prefetched, self._on_prefetched = batch, on_outcome
            return
        self.begin(batch, on_outcome)

    def begin(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        self.batches.append(batch)
        self.out = batch
        self._on_outcome = on_outcome
        self._started_ns = self._clock.monotonic_ns()
        if self.takes_s is not None:
            self._loop.call_later(self.takes_s, self.finish)

    def deferred_to(self, on_deferred: OnDeferred) -> None:
        self.on_deferred = on_deferred

    def finish(self, *, input_ns: int = 0, output_ns: int = 0) -> None:
        """The batch that is out comes back, answered by `respond`; the rest of its time is compute_infer."""
        assert self.out is not None
        self.finish_with(
            [self.respond(inference) for inference in self.out],
            input_ns=input_ns,
            output_ns=output_ns,
        )

    def finish_with(
        self,
        responses: collections.abc.Sequence[InferResponse | None],
        *,
        input_ns: int = 0,
        output_ns: int = 0,
        rescheduled: collections.abc.Sequence[int] = (),
    ) -> None:
        """The batch that is out comes back with these responses, too many or too few if the test says so."""
        ended = self._clock.monotonic_ns()
        started = self._started_ns + input_ns
        execution = Execution(responses, started, ended - output_ns, rescheduled=rescheduled)
        self._end(execution, None, ended)

    def fail(self, error: InferenceError) -> None:
        """The batch that is out fails as a whole."""
        self._end(None, error, self._clock.monotonic_ns())

    def fail_prefetched(self, error: InferenceError) -> None:
        """The prefetched batch fails, before the one in execution comes back."""
        batch, on_outcome = self.prefetched, self._on_prefetched
        assert batch is not None
        assert on_outcome is not None
        self.prefetched = self._on_prefetched = None
        now = self._clock.monotonic_ns()
        on_outcome(BatchOutcome(batch, None, error, now, now, now))

    def die(self, error: InferenceError) -> None:
        """Its worker dies: all that it has fails."""
        self.usable(False)
        if self.prefetched is not None:
            self.fail_prefetched(error)
        if self.out is not None:
            self.fail(error)

    def _end(
        self,
        execution: Execution[InferResponse] | None,
        error: InferenceError | None,
        ended_ns: int,
    ) -> None:
        batch, on_outcome = self.out, self._on_outcome
        assert batch is not None
        assert on_outcome is not None
        started = self._started_ns
        self.out = self._on_outcome = None
        following, on_following = self.prefetched, self._on_prefetched
        if following is not None and on_following is not None:
            self.prefetched = self._on_prefetched = None
            self.begin(following, on_following)
        input_end_ns = started if execution is None else execution.input_end_ns
        on_outcome(BatchOutcome(batch, execution, error, started, ended_ns, input_end_ns))

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        self.usable = usable

    def ready_now(self) -> bool | None:
        return True

    async def ready(self) -> bool:
        return True

    def abort(self, why: str) -> None:
        self.aborted.append(why)

    async def close(self) -> None:
        assert self.out is None or self.aborted, "closed while a batch is out"
        self.closed += 1

    async def close_late(self, why: str) -> None:
        self.aborted.append(why)
        self.closed += 1


def hosted(hosts: collections.abc.Iterable[ScriptedHost]) -> list[HostedInstance]:
    """The hosts as instances on the CPU, which have their names."""
    return [HostedInstance(InstanceSpec(host.name, InstanceKind.CPU, 0), host) for host in hosts]


class ScriptedInstance(Instance):
    """Implements `Instance`.

    Attributes:
        executed: every batch it ran.
        script: called with each batch; what it gives becomes the execution's responses; it may raise.
        readiness: called by `ready`.
        asks_model: as in `Instance`.
        closed: how often it was closed.
    """

    def __init__(
        self,
        script: Script = answer_all,
        *,
        readiness: collections.abc.Callable[[], bool] = lambda: True,
        asks_model: bool = True,
    ) -> None:
        self.asks_model = asks_model
        self.executed: list[list[Inference]] = []
        self.script = script
        self.readiness = readiness
        self.closed = 0

    @override
    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution[Response]:
        self.executed.append(list(batch))
        return self.scripted(batch)

    def scripted(self, batch: collections.abc.Sequence[Inference]) -> Execution[Response]:
        """What the script gives."""
        responses = [None if each is None else as_made(each) for each in self.script(batch)]
        return Execution(responses, 0, 0)

    @override
    def ready(self) -> bool:
        return self.readiness()

    @override
    def close(self) -> None:
        self.closed += 1


def as_made(response: InferResponse) -> Response:
    """A response as an instance makes it."""
    outputs = [(output.name, output.datatype.name, output.array) for output in response.outputs]
    return Response(outputs, response.parameters, response.error)
