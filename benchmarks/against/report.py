"""What `make bench-against` shows: a table of cells, one of wires, and a plot."""

import collections.abc
import math
import pathlib

from benchmarks.against import traffic
from benchmarks.against.ratios import (
    CELL_BOUND,
    WIRE_BOUND,
    Cell,
    Result,
    Verdict,
    is_missed,
    means,
)


def line_of(cell: Cell) -> str:
    """A cell in words."""
    model = traffic.MODELS.get(cell.model, cell.model)
    return f"{cell.wire}, {model}, {cell.requests}, {cell.connections}"


def text(results: "collections.abc.Sequence[Result]") -> str:
    """Both tables, in Markdown, and one sentence on the bounds."""
    rows = [
        (
            result.cell.wire, traffic.MODELS.get(result.cell.model, result.cell.model), result.cell.requests, str(result.cell.connections),
            f"{result.microseconds:,.0f}", f"{result.ratio:.3f}", f"±{result.error:.3f}", f"{result.noise:.3f}", f"{result.rate:.2f}", result.verdict.value,
        )
        for result in results
    ]  # fmt: skip
    head = ("wire", "model", "requests", "connections", "µs/request", "ratio", "error", "noise", "throughput", f"≤ {CELL_BOUND}")  # fmt: skip
    wires = [
        (mean.wire, f"{mean.ratio:.3f}", f"±{mean.margin:.3f}", f"{mean.noise:.3f}", f"{mean.rate:.2f}", mean.verdict.value)
        for mean in means(results)
    ]  # fmt: skip
    wire_head = ("wire", "ratio, geometric mean", "noise margin", "noise", "throughput", f"≤ {WIRE_BOUND}")  # fmt: skip
    missed = [line_of(result.cell) for result in results if result.verdict is Verdict.MISSED]
    missed += [mean.wire for mean in means(results) if mean.verdict is Verdict.MISSED]
    summary = f"Missed: {'; '.join(missed)}." if is_missed(results) else "No bound is missed by more than the noise."  # fmt: skip
    return (
        f"{_table(head, rows)}\n\n{_table(wire_head, wires)}\n\n"
        "Processor time per request of the server and all its processes, this checkout / the other one: medians of pairs. "
        f"Noise: the same of two processes of the other checkout.\n{summary}"
    )


def _table(head: "tuple[str, ...]", rows: "collections.abc.Sequence[tuple[str, ...]]") -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, tuple("-" * width for width in widths), *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def plot(results: "collections.abc.Sequence[Result]", path: pathlib.Path) -> None:
    """The ratio of each cell with its error, and the noise beside it; a panel per wire."""
    import matplotlib as mpl  # noqa: PLC0415 - only the plot needs it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of the backend

    panels = means(results)
    most = max(sum(result.cell.wire == panel.wire for result in results) for panel in panels)
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.6 * len(panels), 1.2 + 0.28 * most), squeeze=False, sharex=True
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        shown = [result for result in results if result.cell.wire == panel.wire][::-1]
        places = range(len(shown))
        axis.errorbar(
            [each.ratio for each in shown], places, xerr=[2 * each.error if math.isfinite(each.error) else 0 for each in shown],
            fmt="o", color="#2a78d6", label="this / other",
        )  # fmt: skip
        axis.plot([each.noise for each in shown], places, "x", color="#9aa5b1", label="noise")
        axis.axvline(1.0, color="#9aa5b1", linewidth=0.8)
        axis.axvline(CELL_BOUND, color="#c0392b", linewidth=0.8, linestyle="--")
        names = [line_of(each.cell).partition(", ")[2] for each in shown]
        axis.set_yticks(list(places), names, fontsize=7)
        axis.set_title(f"{panel.wire}: {panel.ratio:.3f} ({panel.verdict.value})", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, fontsize=7)
    figure.suptitle("Processor time per request, this checkout / the other one", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
