"""A scenario: what is sent, which rows it shows, and how two answers to it are compared.

Each scenario is asked of the real tritonserver and of Naiad in the same run, and the answers are compared leaf by
leaf. What the row itself states stands in `expect` and `says`, and is held against both, so that a scenario can fail
although the two agree. Differences that are meant stand in `comparison/differences.py`, each with its reason; one that is not
there fails, and so does one that is there and no longer differs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from typing_extensions import override

from tests.conformance.scenarios.wire import Answer, Target

_MISSING = "(absent)"


class _Absent:
    """Stands in `expect` for a leaf that the answer must not have."""

    @override
    def __repr__(self) -> str:
        return _MISSING


ABSENT = _Absent()


@dataclass(frozen=True)
class Scenario:
    """One question to both servers.

    Attributes:
        name: unique; differences refer to it.
        rows: the rows of docs/reference/triton-behaviour.md that it shows.
        ask: sends it to one server and gives what is compared.
        says: a fragment that an error's text must contain on both sides. Without one, texts are not compared.
        expect: leaves (by path) that the row states, whatever the reference answers.
        mask: patterns of paths that are not compared: times, ids.
        server: the name of the set-up it runs against.
    """

    name: str
    rows: tuple[str, ...]
    ask: Callable[[Target], Answer]
    says: str | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)
    mask: tuple[str, ...] = ()
    server: str = "main"


def leaves(answer: Any, path: str = "") -> dict[str, str]:
    """Nested values as path -> printed leaf, so that NaN equals itself and 1 differs from 1.0 and true."""
    if isinstance(answer, dict) and answer:
        parts = ((str(key), item) for key, item in answer.items())
    elif isinstance(answer, list | tuple) and answer:
        parts = ((str(position), item) for position, item in enumerate(answer))
    else:
        return {path: repr(list(answer)) if isinstance(answer, tuple) else repr(answer)}
    found: dict[str, str] = {}
    for key, item in parts:
        found |= leaves(item, f"{path}.{key}" if path else key)
    return found


def normalised(scenario: Scenario, answer: Answer) -> dict[str, str]:
    """The leaves that count: masks removed, and an error's text replaced by the fragment it must contain."""
    found = dict(answer)
    text = found.pop("error", None)
    if scenario.says is not None:
        said = str(text)
        found["says"] = scenario.says if scenario.says in said else f"something else: {said}"
    flat = leaves(found)
    return {
        path: leaf
        for path, leaf in flat.items()
        if not any(fnmatchcase(path, mask) for mask in scenario.mask)
    }


def differing(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The paths at which two answers differ, with both leaves."""
    paths = [*left, *(path for path in right if path not in left)]
    pairs = {path: (left.get(path, _MISSING), right.get(path, _MISSING)) for path in paths}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


def stated(scenario: Scenario) -> dict[str, str]:
    """What the row itself states, as leaves."""
    found = {path: repr(leaf) for path, leaf in scenario.expect.items()}
    if scenario.says is not None:
        found["says"] = repr(scenario.says)
    return found


def unmet(scenario: Scenario, answer: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The statements of the row that an answer does not fulfil: path -> (stated, answered)."""
    return {
        path: (leaf, answer.get(path, _MISSING))
        for path, leaf in stated(scenario).items()
        if answer.get(path, _MISSING) != leaf
    }


def http(
    name: str,
    rows: str,
    method: str,
    path: str,
    body: bytes | str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    status: int,
    says: str | None = None,
    seen: tuple[str, ...] = (),
    expect: Mapping[str, Any] | None = None,
    mask: tuple[str, ...] = (),
    server: str = "main",
) -> Scenario:
    """A scenario of one HTTP request; `seen` names headers to compare."""
    return Scenario(
        name=name,
        rows=tuple(rows.split()),
        ask=lambda target: target.http(method, path, body, headers).answer(*seen),
        says=says,
        expect={"status": status, **(expect or {})},
        mask=mask,
        server=server,
    )


def infer(
    name: str,
    rows: str,
    model: str,
    request: Any,
    headers: Mapping[str, str] | None = None,
    *,
    status: int = 200,
    says: str | None = None,
    seen: tuple[str, ...] = (),
    expect: Mapping[str, Any] | None = None,
    mask: tuple[str, ...] = (),
    server: str = "main",
) -> Scenario:
    """A scenario of one inference over HTTP."""
    return Scenario(
        name=name,
        rows=tuple(rows.split()),
        ask=lambda target: target.infer(model, request, headers).answer(*seen),
        says=says,
        expect={"status": status, **(expect or {})},
        mask=mask,
        server=server,
    )
