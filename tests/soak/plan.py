"""How much of what the soak does, and what came of it."""

import collections
import collections.abc
from dataclasses import dataclass, field

from tests.soak import census, repository


@dataclass(frozen=True)
class Plan:
    """How much of what.

    Attributes:
        requests: how many in all.
        clients: how many ask at once.
        kill_every_s: the time between two kills of a worker.
        reload_every_s: the time between two reloads of a model.
        cancelled: the share of requests that are given up before their answer.
        hanging: the share of requests to `hangs` that make it hang.
        wide: the share of requests with tensors that do not fit into a packet.
        abandoned: the share of requests of sequences that are the last one, without an END.
        seed: of everything that is drawn.
        tenants: models of ever new names that are loaded, asked once and unloaded afterwards.
        models: which are asked.
    """

    requests: int
    clients: int = 16
    kill_every_s: float = 3.0
    reload_every_s: float = 1.0
    cancelled: float = 0.01
    hanging: float = 0.002
    wide: float = 0.02
    abandoned: float = 0.005
    seed: int = 1
    tenants: int = 0
    models: tuple[str, ...] = repository.ALL


@dataclass
class Result:
    """What came of it.

    Attributes:
        outcomes: requests by model and what became of them.
        faults: what should not have been, in words.
        kills: workers killed from outside.
        reloads: reloads that were answered with success.
        before: what the server held before it all.
        after: what it held when it was quiet again.
        seconds: how long the requests took.
        stalls: how late the server's event loop was each time that it logged so, and the line of its log. Milliseconds, less the time
            that the loop waited for a processor.
    """

    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)
    kills: int = 0
    reloads: int = 0
    before: census.Census | None = None
    after: census.Census | None = None
    seconds: float = 0.0
    stalls: list[tuple[float, str]] = field(default_factory=list)

    @property
    def lag_ms(self) -> float:
        """The most that the event loop was late; 0 if it logged no stall."""
        return max((own_ms for own_ms, _ in self.stalls), default=0.0)


class Ledger:
    """What is left to ask, and what became of the rest.

    Args:
        requests: how many in all.
        result: gets outcomes and faults.
        progress: called now and then with how far it is, in words.
    """

    def __init__(
        self, requests: int, result: Result, *, progress: collections.abc.Callable[[str], None]
    ) -> None:
        self._requests = requests
        self._result = result
        self._progress = progress
        self.taken = 0

    def take(self) -> int:
        """The number of the next request, from 1; 0 when all were asked."""
        if self.taken >= self._requests:
            return 0
        self.taken += 1
        if self.taken % _REQUESTS_SHOWN == 0:
            self._progress(f"{self.taken} of {self._requests} requests")
        return self.taken

    def count(self, model: str, outcome: str, fault: str = "") -> None:
        """A request has ended; `fault`: what should not have been."""
        self._result.outcomes[f"{model}: {outcome}"] += 1
        if fault:
            self._result.faults.append(f"{model}: {fault}")


_REQUESTS_SHOWN = 10_000
