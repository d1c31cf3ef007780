"""The service store: which versions need a reconcile, and which may be used without a read."""

import random
import typing

from naiad_operator.queue import Key
from naiad_operator.reconcile.stores.service_store import (
    LARGE,
    MAX_AGE_S,
    MOST_OF_LARGE,
    ServiceStore,
)
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


def metadata(version: str) -> dict[str, typing.Any]:
    """What a watch says of a service."""
    return dict(service(version)["metadata"])


def version_of(manifest: dict[str, typing.Any] | None) -> str:
    return "" if manifest is None else manifest["metadata"]["resourceVersion"]


def test_a_version_is_used_again_and_without_its_managed_fields() -> None:
    store = ServiceStore(Clock())
    store.put(KEY, service("5"))
    assert store.notice(KEY, metadata("5"))
    for _ in range(2):
        manifest = store.get(KEY)
        assert manifest is not None
        assert "managedFields" not in manifest["metadata"]
        assert manifest["spec"] == service("5")["spec"]


def test_a_version_that_is_no_longer_the_newest_is_read_again() -> None:
    store = ServiceStore(Clock())
    store.put(KEY, service("5"))
    assert store.notice(KEY, metadata("9"))
    assert store.get(KEY) is None
    store.put(KEY, service("9"))
    store.notice(KEY, metadata("7"))
    assert version_of(store.get(KEY)) == "9"


def test_the_echo_of_an_own_status_and_older_versions_need_no_reconcile() -> None:
    store = ServiceStore(Clock())
    store.put(KEY, service("10"))
    store.mark_seen(KEY, "10")
    assert not store.notice(KEY, metadata("10"))
    assert not store.notice(KEY, metadata("9"))
    assert version_of(store.get(KEY)) == "10"
    assert store.notice(KEY, metadata("11"))
    assert store.get(KEY) is None


def test_an_event_that_is_older_than_a_read_does_not_replace_it() -> None:
    store = ServiceStore(Clock())
    store.mark_seen(KEY, "10")
    store.put(KEY, service("20"))
    assert store.notice(KEY, metadata("15"))
    assert version_of(store.get(KEY)) == "20"


def test_versions_in_a_list_may_decrease_as_after_a_restored_backup() -> None:
    store = ServiceStore(Clock())
    store.put(KEY, service("10"))
    store.mark_seen(KEY, "10")
    assert not store.notice(KEY, metadata("10"), listed=True)
    assert store.notice(KEY, metadata("7"), listed=True)
    assert store.get(KEY) is None


def test_a_version_that_nothing_has_confirmed_for_an_hour_is_read_again() -> None:
    clock = Clock()
    store = ServiceStore(clock)
    store.put(KEY, service("5"))
    store.mark_seen(KEY, "5")
    clock.now += MAX_AGE_S - 1
    store.notice(KEY, metadata("5"), listed=True)
    clock.now += MAX_AGE_S - 1
    assert version_of(store.get(KEY)) == "5"
    clock.now += 2
    assert store.get(KEY) is None


def test_a_deleted_service_leaves_nothing() -> None:
    store = ServiceStore(Clock())
    store.put(KEY, service("5"))
    store.discard(KEY)
    assert store.get(KEY) is None
    store.mark_seen(KEY, "10")
    store.forget(KEY)
    assert store.notice(KEY, metadata("3"))


def large(version: str, size: int) -> dict[str, typing.Any]:
    resource = service(version)
    resource["spec"]["predictor"]["env"] = [{"name": "A", "value": random.Random(1).randbytes(size).hex()}]  # fmt: skip
    return resource


def test_of_large_services_only_some_are_kept_and_the_others_are_read_each_time() -> None:
    store = ServiceStore(Clock())
    size = MOST_OF_LARGE // 4
    keys = [Key("models", f"large-{number}") for number in range(6)]
    for key in keys:
        store.put(key, large("5", size))
    kept = [key for key in keys if store.get(key) is not None]
    assert 0 < len(kept) < 5
    assert all(store.is_large(key) for key in keys)
    store.put(KEY, service("5"))
    assert store.get(KEY) is not None, "ordinary ones are kept anyway"
    assert not store.is_large(KEY)
    left = next(key for key in keys if key not in kept)
    assert not store.notice(left, metadata("5")) or store.get(left) is None
    store.mark_seen(left, "5")
    assert not store.notice(left, metadata("5")), "an unchanged one needs no reconcile"
    store.forget(kept[0])
    assert not store.is_large(kept[0])
    store.put(left, large("6", size))
    assert version_of(store.get(left)) == "6", "there is room again"


def test_a_large_service_that_becomes_small_is_an_ordinary_one() -> None:
    store = ServiceStore(Clock())
    for _ in range(5):
        store.put(KEY, large("5", MOST_OF_LARGE // 2))
        store.notice(KEY, metadata("9"))
        assert store.is_large(KEY), "as far as is known"
    store.put(KEY, large("9", LARGE // 4))
    assert not store.is_large(KEY)
    assert store.get(KEY) is not None
    store.put(KEY, large("10", MOST_OF_LARGE // 2))
    assert store.get(KEY) is not None, "nothing is counted twice"
