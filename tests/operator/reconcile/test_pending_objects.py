"""The pending-object cache: which versions need a reconcile, and which may be used without a read."""

import typing

from naiad_operator.queue import Key
from naiad_operator.reconcile.pending_objects import MAX_AGE_S, PendingObjects
from tests.support import manifests

KEY = Key("models", "demo")


class Clock:
    """Time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def service(version: str) -> dict[str, typing.Any]:
    resource = manifests.resource()
    resource["metadata"] |= {"resourceVersion": version, "managedFields": [{"manager": "kubectl"}]}
    return resource


def version_of(manifest: dict[str, typing.Any] | None) -> str:
    return "" if manifest is None else manifest["metadata"]["resourceVersion"]


def test_a_version_is_taken_once_and_without_its_managed_fields() -> None:
    pending = PendingObjects(Clock())
    assert pending.add(KEY, service("5"))
    taken = pending.take(KEY)
    assert taken is not None
    assert "managedFields" not in taken["metadata"]
    assert taken["spec"] == service("5")["spec"]
    assert pending.take(KEY) is None


def test_only_the_newest_version_is_kept() -> None:
    pending = PendingObjects(Clock())
    pending.add(KEY, service("5"))
    pending.add(KEY, service("9"))
    assert version_of(pending.take(KEY)) == "9"


def test_the_echo_of_an_own_status_and_older_versions_are_ignored() -> None:
    pending = PendingObjects(Clock())
    pending.mark_seen(KEY, "10")
    assert not pending.add(KEY, service("10"))
    assert not pending.add(KEY, service("9"))
    assert pending.take(KEY) is None
    assert pending.add(KEY, service("11"))


def test_an_own_status_discards_older_pending_versions_but_not_newer_ones() -> None:
    pending = PendingObjects(Clock())
    pending.add(KEY, service("9"))
    pending.mark_seen(KEY, "10")
    assert pending.take(KEY) is None
    pending.add(KEY, service("12"))
    pending.mark_seen(KEY, "11")
    assert version_of(pending.take(KEY)) == "12"


def test_versions_in_a_list_may_decrease_as_after_a_restored_backup() -> None:
    pending = PendingObjects(Clock())
    pending.mark_seen(KEY, "10")
    assert not pending.add(KEY, service("10"), listed=True)
    assert pending.add(KEY, service("7"), listed=True)
    assert version_of(pending.take(KEY)) == "7"


def test_a_version_that_is_too_old_is_not_used() -> None:
    clock = Clock()
    pending = PendingObjects(clock)
    pending.add(KEY, service("5"))
    clock.now += MAX_AGE_S + 1
    assert pending.take(KEY) is None


def test_a_deleted_service_leaves_nothing() -> None:
    pending = PendingObjects(Clock())
    pending.add(KEY, service("5"))
    pending.discard(KEY)
    assert pending.take(KEY) is None
    pending.mark_seen(KEY, "10")
    pending.forget(KEY)
    assert pending.add(KEY, service("3"))
