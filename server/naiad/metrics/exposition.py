"""The Prometheus text format, version 0.0.4.

Written here because the client library appends `_total` to counters, and Triton's counters have no such ending; dashboards and
autoscalers depend on the exact names (row 8.14). The library's own parser reads this page in the tests.
"""

import collections.abc
import itertools
import math

import msgspec

from naiad.metrics.families import Family
from naiad.metrics.statistics import Histogram

CONTENT_TYPE = b"text/plain; charset=utf-8"

_PIECE = 500
"""Lines. A family of a model's own may have a series for each user: 50,000 take more than a tenth of a second."""

Labels = tuple[tuple[str, str], ...]


class Sample(msgspec.Struct, frozen=True):
    """One line of the page: family name + suffix, labels, value."""

    labels: Labels
    value: float
    suffix: str = ""


class Series(msgspec.Struct, frozen=True):
    """A family with its samples, which may be made while they are read."""

    family: Family
    samples: collections.abc.Iterable[Sample]


class Rendered(msgspec.Struct, frozen=True):
    """A family whose lines are written already: `text` holds whole lines, each with its newline."""

    family: Family
    text: str


def histogram(labels: Labels, observed: Histogram) -> list[Sample]:
    """The lines of one histogram; `labels` are without `le`."""
    running = list(itertools.accumulate(observed.counts))
    return [
        *(
            Sample((*labels, ("le", number(bound))), count, "_bucket")
            for bound, count in zip((*observed.bounds, math.inf), running, strict=True)
        ),
        Sample(labels, observed.total, "_sum"),
        Sample(labels, running[-1], "_count"),
    ]


def page(series: collections.abc.Iterable[Series | Rendered]) -> bytes:
    """The whole page; families without samples are left out, as the reference does."""
    return b"".join(itertools.chain.from_iterable(map(pieces, series)))


def pieces(entry: Series | Rendered) -> collections.abc.Iterator[bytes]:
    """A family in pieces that each take about a millisecond; none without samples."""
    family = entry.family
    head = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.type}\n"
    for text in (entry.text,) if isinstance(entry, Rendered) else _texts(entry):
        if text:
            yield (head + text).encode()
            head = ""


def _texts(series: Series) -> collections.abc.Iterator[str]:
    name, samples = series.family.name, iter(series.samples)
    while some := list(itertools.islice(samples, _PIECE)):
        yield "".join(
            f"{name}{sample.suffix}{in_braces(sample.labels)} {number(sample.value)}\n"
            for sample in some
        )


def labels_text(labels: collections.abc.Iterable[tuple[str, str]]) -> str:
    """Labels as they are written between the braces."""
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels)


def in_braces(labels: Labels) -> str:
    """Labels with their braces; "" without labels."""
    return "{" + labels_text(labels) + "}" if labels else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number(value: float) -> str:
    """A value as the page shows it."""
    if value == math.inf:
        return "+Inf"
    if value == -math.inf:
        return "-Inf"
    if math.isnan(value):
        return "NaN"
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):  # noqa: PLR2004 - exact as a float, and readable
        return str(int(value))
    return repr(value)
