"""When a service is upgraded: what the operator's options say of its namespace, and annotations of the service. Pure.

Annotations order and hold services within their namespace alone: nothing that one team writes moves another team's services.
"""

import dataclasses
import datetime as dt
import enum

from naiad_operator.api import names
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.options import Upgrades

_ALL = "*"
_MOST_DIGITS = 6


class Hold(enum.Enum):
    """Whether a service is upgraded in its turn, later, or not at all."""

    NONE = enum.auto()
    PAUSED = enum.auto()
    SKIPPED = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The turn of one service.

    Attributes:
        hold: whether it is held.
        why: which option or annotation holds it, in words.
        rank: the place of its namespace: lower ones come first.
        order: its place in its namespace.
    """

    hold: Hold = Hold.NONE
    why: str = ""
    rank: int = 0
    order: int = 0


ORDINARY = Turn()
"""The turn of a service of which nothing is said."""


def of(service: InferenceService, options: Upgrades) -> Turn:
    """The turn of a service. The namespace's options come before its annotation."""
    hold, why = _hold(service, options)
    return Turn(
        hold=hold,
        why=why,
        rank=_rank(service.namespace, options.order),
        order=_order(service.annotations.get(names.UPGRADE_ORDER, "")),
    )


def remaining(since: str, now: dt.datetime, limit_s: float) -> float:
    """The seconds for which others still wait for a service whose pods are replaced since then; 0 when the time is over.

    A time that cannot be read, which another client wrote, is over.
    """
    try:
        began = dt.datetime.fromisoformat(since)
        return max(0.0, limit_s - (now - began).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _hold(service: InferenceService, options: Upgrades) -> tuple[Hold, str]:
    for given, option, hold in (
        (options.skip, "--upgrade-skip", Hold.SKIPPED),
        (options.pause, "--upgrade-pause", Hold.PAUSED),
    ):
        if service.namespace in given or _ALL in given:
            return hold, f"the operator's option {option} holds the namespace {service.namespace}"
    text = service.annotations.get(names.UPGRADE, "")
    if not text:
        return Hold.NONE, ""
    shown = f"the annotation {names.UPGRADE} is {text[:20]}"
    if text in names.UPGRADE_VALUES:
        return (Hold.SKIPPED if text == "Skip" else Hold.PAUSED), shown
    return Hold.PAUSED, f"{shown}: write {' or '.join(names.UPGRADE_VALUES)}, or remove it"


def _rank(namespace: str, order: tuple[str, ...]) -> int:
    for name in (namespace, _ALL):
        if name in order:
            return order.index(name)
    return len(order)


def _order(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        return 0
    return int(text)
