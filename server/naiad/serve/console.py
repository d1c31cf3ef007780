"""The output on a terminal: one line per model while it loads, a table of the models, and the addresses of the server.

On a terminal, rich draws it on standard output; otherwise the same facts are log lines, so that a file gets logs only. Rich's markup is escaped in
names and reasons.
"""

import collections.abc
import logging
import sys
import typing

import msgspec

from naiad.log_text import Lines, escaped
from naiad.metrics.memory import MemoryUsage
from naiad.repository.lifecycle import State
from naiad.repository.manager import VersionState
from naiad.repository.plan import ModelPlan
from naiad.repository.version import UNLOADED_REASONS

if typing.TYPE_CHECKING:
    from rich.console import Console

    from naiad.serve.loading_bars import LoadingBars, Loads

log = logging.getLogger("naiad.serve")

ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not bound to
_NS_PER_SECOND = 1e9
_BYTES_PER_MB = 1e6
_REMEMBERED = 10_000
"""Failed versions whose reasons are kept."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one protocol.

    Attributes:
        title: the protocol, as the terminal shows it.
        url: a URL that works on this machine.
        service: its name in the log, as the reference writes it (row 17.13); "" to leave it out of the log.
        bound: the host and port that the socket is bound to, as the log shows them.
        exposure: a warning of who can reach it; "" if only this machine can, or if clients are authenticated.
    """

    title: str
    url: str
    service: str = ""
    bound: str = ""
    exposure: str = ""


def exposure(host: str, *, authenticated: bool) -> str:
    """A warning of who can reach a socket that is bound to `host`; "" if there is no need for one."""
    if host in {"localhost", "::1"} or host.startswith("127."):
        return ""
    parts = ["all interfaces"] if host in ANY_ADDRESS else []
    if not authenticated:
        parts.append("no authentication")
    return ", ".join(parts)


class LoadingLines:
    """Implements the repository's `LoadListener`: one line per model version when its load starts and when it ends.

    Args:
        console: a terminal; None: log lines.
        repeats: whether a load is shown that fails for the same reason as the one before it.
    """

    def __init__(self, console: "Console | None", *, repeats: bool = True) -> None:
        self._console = console
        self._repeats = repeats
        self._failed: dict[tuple[str, int | None], str] = {}
        self._at_start = set[str]()
        self._unread = set[str]()
        self._total = 0
        self._done = 0
        self._unload_level = logging.INFO
        self._bars: LoadingBars | None = None

    def show_bars(self, loads: "Loads") -> None:
        """Show the loads in progress as bars below the lines, on an interactive terminal, until `hide_bars`."""
        if self._console is not None and self._console.is_interactive:
            from naiad.serve.loading_bars import LoadingBars  # noqa: PLC0415 - as in open_console

            self._bars = LoadingBars(self._console, loads)

    def hide_bars(self) -> None:
        """Remove the bars. Idempotent."""
        bars, self._bars = self._bars, None
        if bars is not None:
            bars.close()

    def starting(self, models: collections.abc.Collection[str]) -> None:
        """Count each model as one version until its config is read."""
        self._at_start.update(models)
        self._unread.update(models)
        self._total += len(models)
        if not models:
            log.warning("the model repository holds no model folders: nothing will be served")

    def planned(self, plan: ModelPlan) -> None:
        """Count the versions of a model of the start."""
        if plan.name in self._unread:
            self._unread.remove(plan.name)
            self._total += max(1, len(plan.versions)) - 1

    def changed(self, state: VersionState) -> None:
        """Show the new state of a version."""
        version = "" if state.version is None else f" version {state.version}"
        title, quoted = f"{state.name}{version}", f"'{state.name}'{version}"
        extra = about(state)
        if self._is_repeated(state):
            log.debug(
                "%s is %s again: %s", title, state.state.value, Lines(state.reason), extra=extra
            )
            return
        match state.state:
            case State.LOADING if self._console is not None:
                if self._bars is None:
                    self._console.print(f"  … {escape(title)} [dim]loading[/]")
            case State.LOADING:
                log.info("loading: %s:%s", state.name, state.version, extra=extra)
            case State.READY if state.updated:
                log.info("updated %s without a reload; %s", quoted, state.updated, extra=extra)
            case State.READY:
                self._done += state.name in self._at_start
                seconds = state.load_ns / _NS_PER_SECOND
                if self._console is not None:
                    took = f"loaded in {seconds:.2f} s{_memory(state.memory)}"
                    self._show(f"[green]✓[/] {escape(title)} [dim]{took}[/]", state)
                else:
                    log.info(
                        "successfully loaded %s in %.2f s%s%s",
                        quoted,
                        seconds,
                        _memory(state.memory),
                        self._count(state),
                        extra=extra | _memory_fields(state.memory),
                    )
            case State.UNAVAILABLE if state.reason in UNLOADED_REASONS:
                log.log(
                    self._unload_level,
                    "successfully %s %s%s",
                    state.reason,
                    quoted,
                    _memory_change(state),
                    extra=extra,
                )
            case State.UNAVAILABLE:
                self._done += state.name in self._at_start
                reason = state.details or state.reason
                old = "; what was loaded before goes on serving" if state.replaces else ""
                reason = reason.replace(state.name, escaped(state.name))
                log.error("failed to load %s%s: %s", quoted, old, Lines(reason), extra=extra)
                self._show(f"[red]✗[/] {escape(title)} [red]failed[/]{old}", state)
            case _:
                log.debug("%s is %s", title, state.state.value, extra=extra)

    def hide_unloads(self) -> None:
        """Do not show unloads after a start that failed: they would hide the reason."""
        self._unload_level = logging.DEBUG

    def _is_repeated(self, state: VersionState) -> bool:
        """Whether this is a part of a load that fails as the one before it; notes what failed."""
        key = state.name, state.version
        before = self._failed.get(key)
        if state.state is State.LOADING:
            return before is not None
        self._failed.pop(key, None)
        is_failure = state.state is State.UNAVAILABLE and state.reason not in UNLOADED_REASONS
        if self._repeats or not is_failure:
            return False
        if len(self._failed) >= _REMEMBERED:
            self._failed.clear()
        self._failed[key] = state.reason
        return before == state.reason

    def _count(self, state: VersionState) -> str:
        """The progress of the start; "" for later loads, and for models that others load meanwhile."""
        if state.name not in self._at_start or self._done > self._total:
            return ""
        return f" ({self._done} of {self._total})"

    def _show(self, markup: str, state: VersionState) -> None:
        if self._console is not None:
            self._console.print(f"  {markup}[dim]{self._count(state)}[/]")


def about(state: VersionState) -> dict[str, object]:
    """The fields of a log line about a model version."""
    fields: dict[str, object] = {"model": state.name}
    if state.version is not None:
        fields["version"] = state.version
    return fields


def open_console() -> "Console | None":
    """A console when standard output is a terminal, else None."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415 - 0.1 s of start-up that only a terminal needs

    return Console(highlight=False)


def show_models(console: "Console | None", states: collections.abc.Sequence[VersionState]) -> None:
    """Show the table of all versions with their states; on a terminal also the reasons, which a log has in lines before it."""
    if console is not None:
        from rich.table import Table  # noqa: PLC0415 - as in open_console

        table = Table(title="Models", title_justify="left", title_style="bold")
        for heading in ("model", "version", "state", "reason"):
            table.add_column(heading, overflow="fold")
        for state in states:
            colour = "green" if state.state is State.READY else "red"
            table.add_row(
                escape(state.name),
                _version(state),
                f"[{colour}]{state.state.value}[/]",
                escape(state.reason),
            )
        console.print(table)
        return
    width = max((len(state.name) for state in states), default=0)
    rows = [
        f"{state.name:<{width}}  {_version(state):>7}  {state.state.value:<11}  {_short_reason(state)}".rstrip()
        for state in states
    ]
    log.info(
        "models:",
        extra={
            "rows": [f"{'model':<{width}}  version  state        reason", *rows],
            "models": [
                {**about(state), "state": state.state.value, "reason": state.reason}
                for state in states
            ],
        },
    )


def show_addresses(
    console: "Console | None", addresses: collections.abc.Sequence[Address], *, example: str
) -> None:
    """Show the addresses, and on a terminal a command to try."""
    if console is not None:
        for address in addresses:
            remark = f"  [dim]({address.exposure})[/]" if address.exposure else ""
            console.print(f"  [bold]{address.title:<9}[/] {address.url}{remark}")
        if example:
            console.print(f"\n  Try:  [cyan]{escape(example)}[/]\n")
        return
    for address in addresses:
        if address.service:
            remark = f" ({address.exposure})" if address.exposure else ""
            log.info(
                "Started %s at %s%s",
                address.service,
                address.bound,
                remark,
                extra={"service": address.service, "address": address.bound},
            )


def _short_reason(state: VersionState) -> str:
    """A failure has lines of its own in the log."""
    if state.reason in UNLOADED_REASONS:
        return state.reason
    return "see above" if state.reason else ""


_SHOWN_BYTES = 50_000
"""Less is 0.0 MB."""


def _memory(memory: collections.abc.Iterable[MemoryUsage]) -> str:
    """What a load took, for people."""
    return "".join(
        f", {'about ' * usage.estimated}{usage.byte_size / _BYTES_PER_MB:.1f} MB"
        + ("" if usage.type == "CPU" else f" of GPU {usage.id}")
        for usage in memory
        if usage.byte_size >= _SHOWN_BYTES
    )


def _memory_fields(memory: collections.abc.Sequence[MemoryUsage]) -> dict[str, object]:
    """The memory that a load took, as fields of a log record."""
    return {"memory_usage": [msgspec.structs.asdict(usage) for usage in memory]} if memory else {}


def _memory_change(state: VersionState) -> str:
    """What an unload freed. The whole process and the whole GPU are measured, so other work in the meantime is included."""
    if state.resident is None:
        return ""
    changes = [_change("resident memory", state.resident)]
    changes += [_change(f"GPU {gpu}", sizes) for gpu, sizes in state.gpu_memory.items()]
    return ": " + ", ".join(changes)


def _change(what: str, sizes: tuple[int, int]) -> str:
    before, after = (size / _BYTES_PER_MB for size in sizes)
    return f"{what} {before:.1f} MB -> {after:.1f} MB ({after - before:+.1f} MB)"


def escape(text: str) -> str:
    """Text in which rich finds no markup."""
    return escaped(text).replace("[", r"\[")


def _version(state: VersionState) -> str:
    return "-" if state.version is None else str(state.version)
