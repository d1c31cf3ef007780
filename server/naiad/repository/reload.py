"""What a load has to do, given what serves now: nothing, some versions, or all of them (rows 7.21, 7.22, 7.25). Pure."""

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
    """The versions that go on serving as they are, because nothing that they are made of has changed.

    A version is made of its own folder, of what all versions share (files and folders that are no version), and of the
    config; a config file that was written again with the same meaning is no change.

    Args:
        plans: what shall serve.
        serving: what serves now, by number.
        before: the folder when that was loaded.
        now: the folder as it is.
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
