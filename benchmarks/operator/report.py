"""The operator's results as people read them: a line while it is measured, a table in the docs, JSON and a plot in `results/`."""

import collections.abc
import dataclasses
import json
import os
import pathlib
import typing

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The results of one size. Times in seconds, memory in MB.

    Attributes:
        requests_at_rest: per service and hour, by verb and resource, beside Lease, watches and discovery.
        requests_of_its_own: those, per hour, by verb and resource; a watch counts when it ends.
    """

    services: int
    children: int
    all_children: float
    all_settled: float
    writes_to_settle: int
    cpu_to_settle: float
    cpu_of_kubernetes: float
    writes_in_a_quiet_minute: int
    edit_p50: float
    edit_p99: float
    memory: float
    restart: float
    restart_writes: int
    restart_memory: float
    requests_at_rest: collections.abc.Mapping[str, float]
    requests_of_its_own: collections.abc.Mapping[str, float]
    new_p50: float
    new_p99: float


def _at_rest(result: Result) -> str:
    """All requests, and those of each verb and resource."""
    requests = result.requests_at_rest
    listed = ", ".join(f"{name} {rate:.1f}" for name, rate in requests.items())
    return f"{sum(requests.values()):.1f}" + (f" ({listed})" if listed else "")


_Form = collections.abc.Callable[[Result], str]
_COLUMNS: tuple[tuple[str, str, _Form], ...] = (
    ("services", "", lambda r: f"{r.services:,}"),
    ("children", "", lambda r: f"{r.children:,}"),
    ("all children after", "≤ 45 s", lambda r: f"{r.all_children:.1f} s"),
    ("at rest after", "", lambda r: f"{r.all_settled:.1f} s"),
    ("writes until then", "", lambda r: f"{r.writes_to_settle:,}"),
    ("processor time until then, operator", "", lambda r: f"{r.cpu_to_settle:.1f} s"),
    ("processor time until then, Kubernetes", "", lambda r: f"{r.cpu_of_kubernetes:.0f} s"),
    ("writes in a quiet minute", "0", lambda r: f"{r.writes_in_a_quiet_minute}"),
    ("edit p50", "", lambda r: f"{r.edit_p50 * 1000:.0f} ms"),
    ("edit p99", "≤ 0.5 s", lambda r: f"{r.edit_p99 * 1000:.0f} ms"),
    ("memory", "≤ 120 MB", lambda r: f"{r.memory:.0f} MB"),
    ("restart until ready", "≤ 7 s", lambda r: f"{r.restart:.1f} s"),
    ("writes of a restart", "0", lambda r: f"{r.restart_writes}"),
    ("requests per service and hour at rest", "≤ 2", _at_rest),
    (
        "watches and discovery per hour",
        "",
        lambda r: f"{sum(r.requests_of_its_own.values()):.0f}",
    ),
    ("a new service's children, p50", "", lambda r: f"{r.new_p50 * 1000:.0f} ms"),
    ("a new service's children, p99", "≤ 1 s", lambda r: f"{r.new_p99 * 1000:.0f} ms"),
)


def in_a_line(result: Result) -> str:
    """The results of one size on one line."""
    return ", ".join(f"{name} {form(result)}" for name, _, form in _COLUMNS)


def table(results: collections.abc.Sequence[Result]) -> str:
    """The results as a Markdown table, one row per value, with the targets."""
    heads = [f"{r.services:,} services" for r in results]
    lines = ["| | " + " | ".join(heads) + " | should be |", "|---" * (len(heads) + 2) + "|"]
    for name, target, form in _COLUMNS[1:]:
        lines.append(f"| {name} | " + " | ".join(form(r) for r in results) + f" | {target} |")
    return "\n".join(lines)


def _plot(results: collections.abc.Sequence[Result], path: pathlib.Path) -> None:
    """Plots the results over the number of services."""
    panels: tuple[tuple[str, collections.abc.Callable[[Result], float], float], ...] = (
        ("all children, s", lambda r: r.all_children, 45),
        ("edit p99, ms", lambda r: r.edit_p99 * 1000, 500),
        ("new service p99, ms", lambda r: r.new_p99 * 1000, 1000),
        ("memory, MB", lambda r: r.memory, 120),
        ("restart, s", lambda r: r.restart, 7),
    )
    figure, axes = plt.subplots(1, len(panels), figsize=(3.2 * len(panels), 3.0))
    for axis, (name, value, most) in zip(axes, panels, strict=True):
        axis.plot([r.services for r in results], [value(r) for r in results], marker="o")
        axis.axhline(most, color="0.6", linestyle="--", linewidth=1)
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("services")
    figure.suptitle("The operator as services grow (dashed: what it may take)", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def written_down(results: collections.abc.Sequence[Result], folder: pathlib.Path) -> None:
    """Writes the results as JSON, and plots them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, typing.Any]] = [dataclasses.asdict(result) for result in results]
    written = {"cores": os.cpu_count(), "results": rows}
    (folder / "operator.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    _plot(results, folder / "operator.png")
