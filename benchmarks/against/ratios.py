"""From measurements of two checkouts to ratios, noise and verdicts. Pure.

A round measures, for each cell, the other checkout, this one, and the other one once more in a process of its own. The ratio of a
cell is the median over rounds and starts of this / other, where other is the geometric mean of the slices before and after: a machine that gets
slower or faster meanwhile does so for both. The other checkout's second process / its first one gives the noise: what a ratio is when
nothing has changed.
"""

import collections.abc
import dataclasses
import enum
import math
import statistics

OTHER, THIS, AGAIN = "other", "this", "again"
SIDES = (OTHER, THIS, AGAIN)

WIRE_BOUND = 1.03
"""Processor time per request, this / other, as geometric mean over the cells of a wire."""

CELL_BOUND = 1.08
"""The same of any one cell."""

_MEDIAN_ERROR = 1.2533 * 1.4826
"""Standard error of a median in units of the median absolute deviation over the root of the count, for a normal distribution."""

_ERRORS = 2.0
"""Standard errors that count as noise."""

_FEWEST_STARTS = 4
"""Fewer say nothing about the error, and then no bound is missed for certain."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One kind of load.

    Attributes:
        wire: as `traffic.WIRES` names it.
        model: what is asked.
        requests: "same" for one request over and over, else what changes from one to the next.
        connections: how many at once.
    """

    wire: str
    model: str
    requests: str
    connections: int


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """What one side did in one round of one cell.

    Attributes:
        seconds_each: processor time per request.
        per_second: requests.
    """

    seconds_each: float
    per_second: float


Round = collections.abc.Mapping[str, Slice]
"""By side."""


class Verdict(enum.Enum):
    """What a bound says of a ratio."""

    HOLDS = "holds"
    NOISE = "above, within noise"
    MISSED = "MISSED"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A cell, measured.

    Attributes:
        cell: which.
        microseconds: processor time per request of this checkout, median.
        ratio: processor time per request, this / other.
        error: standard error of `ratio`, relative; infinite after too few starts.
        noise: the same ratio of the other checkout's two processes.
        rate: requests per second, this / other.
    """

    cell: Cell
    microseconds: float
    ratio: float
    error: float
    noise: float
    rate: float

    @property
    def margin(self) -> float:
        """How far above a bound may be noise, relative."""
        return max(abs(self.noise - 1), _ERRORS * self.error)

    @property
    def verdict(self) -> Verdict:
        """Of the bound on a cell."""
        return verdict_of(self.ratio, bound=CELL_BOUND, margin=self.margin)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """All cells of a wire: geometric means.

    Attributes:
        wire: which.
        ratio, noise, rate: as in `Result`.
        margin: how far above the bound may be noise, relative.
    """

    wire: str
    ratio: float
    noise: float
    rate: float
    margin: float

    @property
    def verdict(self) -> Verdict:
        """Of the bound on a wire."""
        return verdict_of(self.ratio, bound=WIRE_BOUND, margin=self.margin)


def verdict_of(ratio: float, *, bound: float, margin: float) -> Verdict:
    """Whether a ratio is above a bound, and by more than the noise."""
    if ratio <= bound:
        return Verdict.HOLDS
    return Verdict.MISSED if ratio > bound * (1 + margin) else Verdict.NOISE


def result(
    cell: Cell, starts: "collections.abc.Sequence[collections.abc.Sequence[Round]]"
) -> Result:
    """A cell's medians: of the rounds after each start of the servers, at least one, and of these over the starts.

    Rounds after one start are alike, as the processes keep their luck; so the error is that between starts.
    """

    def median(of: "collections.abc.Callable[[Round], float]") -> tuple[float, list[float]]:
        each_start = [statistics.median(map(of, rounds)) for rounds in starts]
        return statistics.median(each_start), each_start

    ratio, ratios = median(lambda each: _paired([each[side].seconds_each for side in SIDES]))
    spread = statistics.median(abs(each - ratio) for each in ratios)
    few = len(starts) < _FEWEST_STARTS
    return Result(
        cell=cell,
        microseconds=1e6 * median(lambda each: each[THIS].seconds_each)[0],
        ratio=ratio,
        error=math.inf if few else _MEDIAN_ERROR * spread / ratio / math.sqrt(len(starts)),
        noise=median(lambda each: each[AGAIN].seconds_each / each[OTHER].seconds_each)[0],
        rate=median(lambda each: _paired([each[side].per_second for side in SIDES]))[0],
    )


def _paired(values: "list[float]") -> float:
    """This / other, of the values by side."""
    other, this, again = values
    return this / math.sqrt(other * again)


def means(results: "collections.abc.Sequence[Result]") -> list[Mean]:
    """One mean per wire, in the order of the results."""
    wires = dict.fromkeys(each.cell.wire for each in results)
    return [_mean(wire, [each for each in results if each.cell.wire == wire]) for wire in wires]


def _mean(wire: str, results: "list[Result]") -> Mean:
    noise = statistics.geometric_mean(each.noise for each in results)
    error = math.sqrt(sum(each.error**2 for each in results)) / len(results)
    return Mean(
        wire=wire,
        ratio=statistics.geometric_mean(each.ratio for each in results),
        noise=noise,
        rate=statistics.geometric_mean(each.rate for each in results),
        margin=max(abs(noise - 1), _ERRORS * error),
    )


def is_missed(results: "collections.abc.Sequence[Result]") -> bool:
    """Whether any bound is missed by more than the noise."""
    verdicts = [each.verdict for each in results] + [mean.verdict for mean in means(results)]
    return Verdict.MISSED in verdicts
