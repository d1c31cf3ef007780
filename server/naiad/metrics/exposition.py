"""The Prometheus text format, version 0.0.4, and OpenMetrics 1.0 with the same names.

Written here because the client library appends `_total` to counters, and Triton's counters have no such ending; dashboards and
autoscalers depend on the exact names (row 8.14). The library's own parser reads this page in the tests.
"""

import collections.abc
import itertools
import math
import re

import msgspec

from naiad.metrics.families import Family
from naiad.metrics.histogram import Exemplar, Histogram

CONTENT_TYPE = b"text/plain; charset=utf-8"
OPEN_METRICS_TYPE = b"application/openmetrics-text; version=1.0.0; charset=utf-8"
OPEN_METRICS_END = b"# EOF\n"

_WHOLE_BOUND = re.compile(r'([{,]le="-?[0-9]+)"')
"""A bound of a histogram that is an integer. Quotes in the values of other labels are escaped, so that they never match."""

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
    yield from _pieces(head, _texts(entry))


def open_metrics_pieces(entry: Series | Rendered) -> collections.abc.Iterator[bytes]:
    """The same in OpenMetrics; `OPEN_METRICS_END` comes after the last family.

    A counter without the ending `_total`, as Triton's are, is of unknown type there, so that its series keep their names. Bounds are written as
    numbers with a point, which OpenMetrics asks for.
    """
    family = entry.family
    name, type_ = family.name, str(family.type)
    if type_ == "counter":
        name, type_ = name.removesuffix("_total"), type_ if name.endswith("_total") else "unknown"
    help_text = family.help.replace('"', r"\"")
    texts = _texts(entry)
    if type_ == "histogram":
        texts = (_WHOLE_BOUND.sub(r'\1.0"', text) for text in texts)
    yield from _pieces(f"# HELP {name} {help_text}\n# TYPE {name} {type_}\n", texts)


def _pieces(head: str, texts: collections.abc.Iterable[str]) -> collections.abc.Iterator[bytes]:
    for text in texts:
        if text:
            yield (head + text).encode()
            head = ""


def exemplar_text(exemplar: Exemplar, unit: float) -> str:
    """An exemplar as OpenMetrics writes it behind the count of its bucket; its value is divided by `unit`."""
    wall_s = exemplar.wall_ns / 1e9
    return f' # {{trace_id="{exemplar.trace_id}"}} {number(exemplar.value / unit)} {wall_s:.3f}'


def _texts(series: Series | Rendered) -> collections.abc.Iterator[str]:
    if isinstance(series, Rendered):
        yield series.text
        return
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
