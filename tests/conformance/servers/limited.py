"""Models whose instances need resources of the rate limiter, for servers with `--rate-limit=execution_count`."""

from pathlib import Path

from tests.conformance.servers.catalogue import Model, python_model, tensor, write

_DELAY = tensor("DELAY_MS", "INT32", "[ 1 ]")
_REPORT = tensor("REPORT", "STRING", "[ 1 ]")

AMOUNTS = ("ONE:1", "TWO:2", "PAIR:1", "SHARE:1", "SHARES:1", "HERE:1:0", "WORLD:1", "NONE:0")
"""What there is where the command line says so."""


def limited(needs: str, *, priority: int = 0, count: int = 1, group: str = "") -> Model:
    """A `describe` model; `needs` as `NAME:COUNT NAME:COUNT`, with `:global` behind those that are."""
    resources = ", ".join(_resource(each) for each in needs.split())
    groups = f"{{ kind: KIND_CPU count: {count} rate_limiter {{ resources [ {resources} ] priority: {priority} }} }}"
    return Model(python_model(_DELAY, _REPORT, f"instance_group [ {groups}{group} ]"), "describe")


def _resource(text: str) -> str:
    name, count, *more = text.split(":")
    return f'{{ name: "{name}" count: {count} global: {"true" if more else "false"} }}'


SHARED = {
    "one_a": limited("ONE:1"),
    "one_b": limited("ONE:1"),
    "two_a": limited("TWO:1"),
    "two_b": limited("TWO:1"),
    "two_both": limited("TWO:2"),
    "pair": limited("PAIR:1", count=2),
    "here_a": limited("HERE:1"),
    "here_b": limited("HERE:1"),
    "world_a": limited("WORLD:1:global"),
    "world_b": limited("WORLD:1:global"),
    "several": limited("TWO:1 ONE:1"),
    "share_plug": limited("SHARE:1"),
    "share_1": limited("SHARE:1", priority=1),
    "share_2": limited("SHARE:1", priority=2),
    "shares_plug": limited("SHARES:1"),
    "shares_0": limited("SHARES:1"),
    "shares_1": limited("SHARES:1", priority=1),
    "free": Model(python_model(_DELAY, _REPORT, "instance_group { kind: KIND_CPU count: 1 }"), "describe"),
    "weighted_free": Model(
        python_model(_DELAY, _REPORT, "instance_group { kind: KIND_CPU count: 1 rate_limiter { priority: 5 } }"), "describe"
    ),
    "needs_nothing": limited("NONE:0"),
}  # fmt: skip

REFUSED = {
    "too_much": limited("ONE:2"),
    "too_much_global": limited("WORLD:2:global"),
    "unnamed": limited("NEVER:1"),
    "unnamed_global": limited("NEVER:1:global"),
    "both_kinds": limited("TWO:1", group=', { kind: KIND_CPU count: 1 rate_limiter { resources [ { name: "TWO" count: 1 global: true } ] } }'),
    "one_group_too_much": limited("TWO:1", group=', { kind: KIND_CPU count: 1 rate_limiter { resources [ { name: "TWO" count: 3 } ] } }'),
}  # fmt: skip

BY_NEED = {
    "need_3": limited("R:3"),
    "need_1_a": limited("R:1"),
    "need_1_b": limited("R:1"),
    "need_1_c": limited("R:1"),
    "global_r": limited("R:1:global"),
}


def shared(folder: Path) -> list[Path]:
    """The models for amounts of the command line."""
    return [write(folder / "models", SHARED)]


def refused(folder: Path) -> list[Path]:
    """Models that could never run with these amounts."""
    return [write(folder / "models", REFUSED)]


def by_need(folder: Path) -> list[Path]:
    """The models for the default: as much as the instance that needs most."""
    return [write(folder / "models", BY_NEED)]


def unlimited(folder: Path) -> list[Path]:
    """The same ones, for a server without the rate limiter."""
    names = ("one_a", "one_b", "too_much", "both_kinds")
    return [write(folder / "models", SHARED | REFUSED, only=names)]
