"""Which versions a reload keeps, given what serves now: all, some, or none (rows 7.21, 7.22, 7.25). Pure."""

import collections.abc

from naiad.repository.fingerprint import Fingerprint
from naiad.repository.plan import VersionPlan


def untouched(
    plans: collections.abc.Sequence[VersionPlan],
    serving: collections.abc.Mapping[int, VersionPlan],
    *,
    before: Fingerprint,
    now: Fingerprint,
) -> frozenset[int]:
    """The versions that go on serving as they are, because nothing that they depend on has changed.

    A version depends on its own folder, on what all versions share (files and folders other than versions), and on the
    config; a config file that was rewritten with the same meaning is not a change.

    Args:
        plans: the versions to serve.
        serving: the versions that serve now, by number.
        before: the folder when they were loaded.
        now: the folder as it is now.
    """
    if _shared(before) != _shared(now):
        return frozenset()
    return frozenset(
        plan.version
        for plan in plans
        if (old := serving.get(plan.version)) is not None
        and old.config == plan.config
        and old.model_dir == plan.model_dir
        and before.get(str(plan.version)) == now.get(str(plan.version))
    )


def _shared(found: Fingerprint) -> Fingerprint:
    return {
        name: files
        for name, files in found.items()
        if not name.isdecimal() and name != "configs" and not name.endswith(".pbtxt")
    }
