"""What a person at the terminal sees: one line a model while it loads, a table of what is ready, and where to send requests.

Names and reasons are other people's text: rich's markup is escaped in them. On a terminal it is drawn with rich on standard output; otherwise the same facts are log lines, so that nothing but logs goes to a file.
"""

import collections.abc
import logging
import sys
import typing

import msgspec

from naiad.repository.lifecycle import State
from naiad.repository.manager import UNLOADED, VersionState
from naiad.repository.plan import ModelPlan

if typing.TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("naiad.serve")

ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not bound to
_NS_A_SECOND = 1e9
_BYTES_A_MB = 1e6


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where one protocol is served.

    Attributes:
        title: what it is.
        url: where it can be reached from this machine.
        service: its name in the log, as the reference writes it (row 17.13); "" to leave it out of the log.
        bound: the host and port that the socket is bound to, as the log shows them.
        exposure: who can reach it, for the person who started it; "" when only this machine can, or when callers are authenticated.
    """

    title: str
    url: str
    service: str = ""
    bound: str = ""
    exposure: str = ""


def exposure(host: str, *, authenticated: bool) -> str:
    """Who can reach a socket that is bound to `host`, in a few words; "" when there is nothing to warn of."""
    if host in {"localhost", "::1"} or host.startswith("127."):
        return ""
    parts = ["all interfaces"] if host in ANY_ADDRESS else []
    if not authenticated:
        parts.append("no authentication")
    return ", ".join(parts)


class LoadingLines:
    """The repository's `Progress`: one line a model version when it starts and when it is done."""

    def __init__(self, console: "Console | None") -> None:
        self._console = console
        self._total = 0
        self._done = 0
        self._unload_level = logging.INFO

    def planned(self, plans: collections.abc.Sequence[ModelPlan]) -> None:
        """All configs are read."""
        self._total = sum(max(1, len(plan.versions)) for plan in plans)
        if not plans:
            log.warning("the model repository holds no model folders: nothing will be served")

    def changed(self, state: VersionState) -> None:
        """A version entered a state."""
        title = state.name if state.version is None else f"{state.name} version {state.version}"
        extra = about(state)
        match state.state:
            case State.LOADING if self._console is not None:
                self._console.print(f"  … {escape(title)} [dim]loading[/]")
            case State.LOADING:
                log.info("loading: %s", title, extra=extra)
            case State.READY:
                self._done += 1
                seconds = state.load_ns / _NS_A_SECOND
                if self._console is not None:
                    self._show(f"[green]✓[/] {escape(title)} [dim]loaded in {seconds:.2f} s[/]")
                else:
                    log.info(
                        "successfully loaded %s in %.2f s%s",
                        title,
                        seconds,
                        self._count(),
                        extra=extra,
                    )
            case State.UNAVAILABLE if state.reason == UNLOADED:
                log.log(
                    self._unload_level,
                    "successfully unloaded %s%s",
                    title,
                    _freed(state.resident),
                    extra=extra,
                )
            case State.UNAVAILABLE:
                self._done += 1
                reason = state.details or state.reason
                old = "; what was loaded before goes on serving" if state.replaces else ""
                log.error("failed to load %s%s: %s", title, old, reason, extra=extra)
                self._show(f"[red]✗[/] {escape(title)} [red]failed[/]{old}")
            case _:
                log.debug("%s is %s", title, state.state.value, extra=extra)

    def hide_unloads(self) -> None:
        """The start has failed: lines about what is unloaded again would only bury the reason."""
        self._unload_level = logging.DEBUG

    def _count(self) -> str:
        """How far the start is; loads after it are counted by nobody."""
        return f" ({self._done} of {self._total})" if self._done <= self._total else ""

    def _show(self, markup: str) -> None:
        if self._console is not None:
            self._console.print(f"  {markup}[dim]{self._count()}[/]")


def about(state: VersionState) -> dict[str, str | int]:
    """The fields of a log line about a model version."""
    fields: dict[str, str | int] = {"model": state.name}
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
    """The table of what is READY and what is not, on a terminal with the reason; in a log the reason is in a line before it."""
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
        f"{state.name:<{width}}  {_version(state):>7}  {state.state.value:<11}  {'see above' if state.reason else ''}".rstrip()
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
    """Where to send requests, and one command that works."""
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


def _freed(resident: tuple[int, int] | None) -> str:
    """What an unload gave back: the whole process is measured, so that what others did meanwhile is in it."""
    if resident is None:
        return ""
    before, after = (size / _BYTES_A_MB for size in resident)
    return f": resident memory {before:.1f} MB -> {after:.1f} MB ({after - before:+.1f} MB)"


def escape(text: str) -> str:
    """Text that rich prints as it is."""
    return text.replace("[", r"\[")


def _version(state: VersionState) -> str:
    return "-" if state.version is None else str(state.version)
