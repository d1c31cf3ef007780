"""What a poll of the stores changes: which models to load, unload, or leave until their files are complete (rows 7.25, 7.30). Pure.

A model may be found while its files are still being copied. So a change is loaded only once its files have settled: polls that are at least
`quiet_ns` apart, and all those between them, found the same names, sizes and times.

A load that fails is tried again when something changes, the model's files or a model that it needs, and otherwise after waits that double up to
`MAX_RETRY_NS`: the reason may pass while the files stay the same (an agent, a device, memory).
"""

import collections.abc

import msgspec

from naiad.repository.plan import LoadedFrom, ModelPlan
from naiad.repository.polling.fingerprint import changed_paths, in_words
from naiad.repository.store import Store

Names = collections.abc.Collection[str]

MAX_RETRY_NS = 300 * 10**9
"""The longest wait between two attempts to load a model whose files stay the same: a permanent error must not cost much."""

_MAX_DOUBLINGS = 40

RETRY = "it failed to load before"
"""Why a model is loaded again whose files stay the same."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What one poll found in all stores.

    Attributes:
        sources: the models and their files, by name.
        refused: why a model that several stores have is not served (row 7.6).
        unreadable: why the files of a model could not be listed. Such a model stays as it is.
        hidden: models of stores that could not be read. They stay as they are, too.
    """

    sources: collections.abc.Mapping[str, LoadedFrom] = {}
    refused: collections.abc.Mapping[str, ModelPlan] = {}
    unreadable: collections.abc.Mapping[str, str] = {}
    hidden: Names = frozenset()


class Waiting(msgspec.Struct, frozen=True):
    """A change that has not settled yet: what was found, and since when (monotonic)."""

    source: LoadedFrom
    since_ns: int


class Failure(msgspec.Struct, frozen=True):
    """A load that failed.

    Attributes:
        source: what was to be loaded.
        reason: why it failed; "" if it failed at the start, where the reason was shown.
        attempts: how many loads of it have failed.
        retry_ns: when it is loaded again (monotonic).
    """

    source: LoadedFrom
    reason: str
    attempts: int
    retry_ns: int


def failure(
    before: Failure | None, source: LoadedFrom, reason: str, *, now_ns: int, interval_ns: int
) -> Failure:
    """The record of a failed load.

    Args:
        before: of the load before it; None if that succeeded.
        source: what was to be loaded.
        reason: why it failed.
        now_ns: when it failed (monotonic).
        interval_ns: between two polls, and the first wait.
    """
    attempts = 1 if before is None or before.source != source else before.attempts + 1
    wait_ns = min(interval_ns << min(attempts - 1, _MAX_DOUBLINGS), MAX_RETRY_NS)
    return Failure(source, reason, attempts, now_ns + wait_ns)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A model to load.

    Attributes:
        source: what to load.
        after: the models that it needs and that change as well: they come first.
        again: its files have not changed, but a model that it needs does.
        why: what changed, for the log.
    """

    source: LoadedFrom
    after: frozenset[str]
    again: bool
    why: str


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What to do after a poll.

    Attributes:
        loads: models to load, by name.
        unloads: models that no store has any more.
        refused: models that several stores have now: they are unloaded (row 7.6).
        waiting: changes that have not settled, by name; given to the next decision.
    """

    loads: collections.abc.Mapping[str, Load]
    unloads: Names
    refused: collections.abc.Mapping[str, ModelPlan]
    waiting: collections.abc.Mapping[str, Waiting]


Tried = collections.abc.Mapping[str, LoadedFrom | None]
"""What each model was loaded from last, failed loads included; None for a refused one."""


def hidden(tried: Tried, unreadable: collections.abc.Collection[Store]) -> set[str]:
    """The models of stores that cannot be read: those that were loaded from there, and those that several stores have, which may be among them."""
    return {
        name
        for name, source in tried.items()
        if unreadable and (source is None or source.model.store in unreadable)
    }


def changes(
    listing: Listing,
    *,
    tried: Tried,
    failures: collections.abc.Mapping[str, Failure],
    waiting: collections.abc.Mapping[str, Waiting],
    busy: Names,
    needs: collections.abc.Callable[[str], Names],
    now_ns: int,
    quiet_ns: int,
) -> Changes:
    """Decide what to do after a poll.

    Args:
        listing: what the stores hold now.
        tried: what the models were loaded from.
        failures: of the models whose last load failed.
        waiting: of the decision before.
        busy: models whose last change is still being applied; they stay as they are.
        needs: the models without which a model cannot work.
        now_ns: when the stores were listed (monotonic).
        quiet_ns: how long the files of a changed model must have stayed the same; 0: load it at once.
    """
    left_alone = {*busy, *listing.unreadable, *listing.hidden}
    settled: dict[str, LoadedFrom] = {}
    retried: dict[str, LoadedFrom] = {}
    unsettled = {name: entry for name, entry in waiting.items() if name in left_alone}
    for name, source in listing.sources.items():
        if name in left_alone:
            continue
        if tried.get(name) == source:
            if name in failures and now_ns >= failures[name].retry_ns:
                retried[name] = source
            continue
        before = waiting.get(name)
        since = before.since_ns if before is not None and before.source == source else now_ns
        if now_ns - since >= quiet_ns:
            settled[name] = source
        else:
            unsettled[name] = Waiting(source, since)
    refused = {
        name: plan
        for name, plan in listing.refused.items()
        if name not in left_alone and (name not in tried or tried[name] is not None)
    }
    unloads = {
        name
        for name in tried
        if name not in left_alone and name not in listing.sources and name not in listing.refused
    }
    changed = {*settled, *unloads, *refused}
    affected = _dependents(changed, set(listing.sources) - left_alone - set(unsettled), needs)
    loading = settled | retried | {name: listing.sources[name] for name in sorted(affected)}
    return Changes(
        loads={
            name: Load(
                source=source,
                after=frozenset(needs(name)) & loading.keys(),
                again=name in affected,
                why=difference(tried.get(name), source)
                or (_needed(changed | affected, needs(name)) if name in affected else RETRY),
            )
            for name, source in loading.items()
        },
        unloads=unloads,
        refused=refused,
        waiting=unsettled,
    )


def _dependents(
    changed: set[str], models: set[str], needs: collections.abc.Callable[[str], Names]
) -> set[str]:
    """The models that need one that changes, directly or through others."""
    affected = set[str]()
    pending = set(changed)
    while pending:
        pending = {
            name for name in models - changed - affected if not pending.isdisjoint(needs(name))
        }
        affected |= pending
    return affected


def difference(before: LoadedFrom | None, now: LoadedFrom) -> str:
    """How a model differs from what was loaded, in words that follow "because"; "" if it does not."""
    if before is None:
        return "it is new"
    if before.model != now.model:
        return f"it is at {now.model.location} now"
    paths = changed_paths(before.fingerprint, now.fingerprint)
    return f"{in_words(paths)} changed" if paths else ""


def _needed(changed: Names, needs: Names) -> str:
    names = ", ".join(f"'{name}'" for name in sorted(set(changed).intersection(needs)))
    return f"it needs {names}, which changed"
