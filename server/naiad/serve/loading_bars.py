"""The loads in progress as bars on a terminal, while the server starts: one row each with its phase, bytes and time.

Rich draws them in a thread of its own, below everything that is printed meanwhile, and removes them at the end. Log lines that go to the same
terminal are printed through rich, or they would be written into the bars.
"""

import collections.abc
import contextlib
import logging
import os
import sys
import typing

from rich.file_proxy import FileProxy
from rich.filesize import decimal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from naiad.repository.loading.progress import LoadProgress, Phase

if typing.TYPE_CHECKING:
    from rich.console import Console, RenderableType

MAX_ROWS = 10
_SPARE_ROWS = 6
"""Rows of the terminal that the bars leave to other lines."""

_BAR_COLUMNS = 24
_PER_SECOND = 8

Loads = collections.abc.Callable[[], collections.abc.Sequence[LoadProgress]]


class LoadingBars:
    """The bars, from now until `close`.

    Args:
        console: an interactive terminal.
        loads: gives the loads; called in another thread.
    """

    def __init__(self, console: "Console", loads: Loads) -> None:
        self._console = console
        self._loads = loads
        self._spinner = Spinner("dots")
        same = _same_terminal()
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=_PER_SECOND,
            transient=True,
            redirect_stdout=True,
            redirect_stderr=same,
        )
        self._undo = contextlib.ExitStack()
        if same:
            for handler in logging.getLogger().handlers:
                if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
                    old = handler.setStream(FileProxy(console, sys.stderr))
                    self._undo.callback(handler.setStream, old)
        self._live.start()

    def close(self) -> None:
        """Remove the bars. Idempotent."""
        self._live.stop()
        self._undo.close()

    def _render(self) -> "RenderableType":
        rows = max(1, min(MAX_ROWS, self._console.height - _SPARE_ROWS))
        return table(self._loads(), rows=rows, spinner=self._spinner)


def table(
    loads: collections.abc.Iterable[LoadProgress], *, rows: int, spinner: "RenderableType"
) -> Table:
    """The loads in progress, those that wait last; at most so many rows, and one with the number of the others."""
    running = sorted(
        (load for load in loads if not load.is_over),
        key=lambda load: (load.phase is Phase.WAITING, load.name, load.version or 0),
    )
    grid = Table.grid(padding=(0, 1))
    for _ in range(4):
        grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    for load in running[:rows]:
        waits = load.phase is Phase.WAITING
        bar: RenderableType = ""
        if load.bytes_total and load.phase is Phase.FETCHING:
            bar = ProgressBar(total=load.bytes_total, completed=load.bytes_done, width=_BAR_COLUMNS)
        version = "" if load.version is None else f" version {load.version}"
        grid.add_row(
            " " if waits else spinner,
            Text(f"{load.name}{version}", style="dim" if waits else ""),
            Text(f"{load.phase.value.replace('_', ' ')}{_amount(load)}", style="dim"),
            bar,
            Text(f"{load.elapsed_seconds:.1f} s", style="dim"),
        )
    if len(running) > rows:
        grid.add_row("", Text(f"and {len(running) - rows} more", style="dim"))
    return grid


def _amount(load: LoadProgress) -> str:
    """How much is fetched, or how many iterations of warmup samples have begun."""
    if load.phase is Phase.WARMING:
        return f" {load.warmups_begun}/{load.warmups_total}"
    if load.phase is not Phase.FETCHING or not (load.bytes_done or load.bytes_total):
        return ""
    total = f" of {decimal(load.bytes_total)}" if load.bytes_total else ""
    return f" {decimal(load.bytes_done)}{total}"


def _same_terminal() -> bool:
    """Whether standard error goes to the terminal that standard output goes to."""
    try:
        output, error = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return sys.stderr.isatty() and output.st_rdev == error.st_rdev
