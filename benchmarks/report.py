"""What a run of the benchmark leaves behind: a CSV, a plot, and tables in docs/performance.md between two markers."""

import collections.abc
import csv
import dataclasses
import itertools
import pathlib
import re
import typing

CONNECTIONS = (1, 16, 64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Medians of one combination.

    Attributes:
        wire: "HTTP JSON", "HTTP binary" or "gRPC".
        model: what was asked.
        connections: how many at once.
        ours: requests per second, and p50 and p99 in ms.
        theirs: the same of Triton; None where it has no such backend here.
    """

    wire: str
    model: str
    connections: int
    ours: tuple[float, float, float]
    theirs: tuple[float, float, float] | None

    @property
    def ratio(self) -> float | None:
        """Ours over theirs, requests per second."""
        return None if self.theirs is None else self.ours[0] / self.theirs[0]


def write_csv(rows: collections.abc.Iterable[Row], path: pathlib.Path) -> None:
    """One line a combination."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ("wire", "model", "connections", "naiad_rps", "naiad_p50_ms", "naiad_p99_ms",
             "triton_rps", "triton_p50_ms", "triton_p99_ms", "ratio")
        )  # fmt: skip
        for row in rows:
            theirs = ("", "", "") if row.theirs is None else tuple(f"{x:.3f}" for x in row.theirs)
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            writer.writerow(
                (row.wire, row.model, row.connections, *(f"{x:.3f}" for x in row.ours), *theirs, ratio)
            )  # fmt: skip


def plot(rows: collections.abc.Sequence[Row], path: pathlib.Path) -> None:
    """Requests per second beside Triton's: one panel per model and wire, one column per wire."""
    import matplotlib as mpl  # noqa: PLC0415 - only the plot needs it, and only `make test` and `make bench` install it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of the backend

    beside = [row for row in rows if row.theirs is not None]
    columns = len({row.wire for row in beside})
    panels = list(dict.fromkeys((row.model, row.wire) for row in beside))
    lines = -(-len(panels) // columns)
    size = (4 * columns, 2.6 * lines + 0.4)
    figure, axes = plt.subplots(lines, columns, figsize=size, squeeze=False)
    for axis, panel in itertools.zip_longest(axes.flat, panels):
        if panel is None:
            axis.set_axis_off()
            continue
        model, wire = panel
        shown = [row for row in beside if (row.model, row.wire) == panel]
        _panel(axis, shown, title=f"{model}, {wire}")
    for line in axes:
        line[0].set_ylabel("requests per second")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=2, loc="upper right")
    figure.suptitle("The same Python model on both servers", fontsize=12)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(axis: typing.Any, rows: collections.abc.Sequence[Row], *, title: str) -> None:
    """Bars in pairs, the ratio over ours."""
    places = range(len(rows))
    theirs = [row.theirs[0] for row in rows if row.theirs]
    ours = [row.ours[0] for row in rows]
    axis.bar([p - 0.2 for p in places], theirs, 0.4, label="Triton", color="#9aa5b1")
    axis.bar([p + 0.2 for p in places], ours, 0.4, label="Naiad", color="#2a78d6")
    for place, row in zip(places, rows, strict=True):
        at = (place + 0.2, row.ours[0])
        axis.annotate(f"{row.ratio:.1f}x", at, ha="center", va="bottom", fontsize=9)
    axis.set_xticks(list(places), [str(row.connections) for row in rows])
    axis.set_xlabel("connections")
    axis.set_title(title, fontsize=10)
    axis.margins(y=0.15)
    axis.spines[["top", "right"]].set_visible(False)


def table(rows: collections.abc.Sequence[Row]) -> str:
    """A Markdown table; columns for Triton only where there is a ratio."""
    beside = any(row.theirs is not None for row in rows)
    head = ["wire", "model", "connections", "Naiad req/s", "p50 ms", "p99 ms"]
    head += ["Triton req/s", "p50 ms", "p99 ms", "ratio"] if beside else []
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row.wire, row.model, str(row.connections), *_cells(row.ours)]
        if beside and row.theirs is not None:
            cells += [*_cells(row.theirs), f"**{row.ratio:.2f}**"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def put_into(document: pathlib.Path, *, marker: str, text: str) -> None:
    """Replace what stands between `<!-- marker -->` and `<!-- /marker -->`.

    Raises:
        ValueError: the document has no such markers.
    """
    content = document.read_text()
    pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- /{marker} -->)", re.DOTALL)
    if not pattern.search(content):
        raise ValueError(f"{document} has no place marked <!-- {marker} -->")
    document.write_text(pattern.sub(lambda found: f"{found[1]}{text}\n{found[2]}", content))


def _cells(values: tuple[float, float, float]) -> list[str]:
    return [f"{values[0]:,.0f}", f"{values[1]:.2f}", f"{values[2]:.2f}"]
