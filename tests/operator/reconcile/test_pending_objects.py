"""What was heard of services: what is news, what a look may use, and what it must ask for."""

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
    made = manifests.resource()
    made["metadata"] |= {"resourceVersion": version, "managedFields": [{"manager": "kubectl"}]}
    return made


def version_of(manifest: dict[str, typing.Any] | None) -> str:
    return "" if manifest is None else manifest["metadata"]["resourceVersion"]


def test_what_was_heard_is_taken_once_and_whole_but_for_its_managed_fields() -> None:
    news = PendingObjects(Clock())
    assert news.add(KEY, service("5"))
    taken = news.take(KEY)
    assert taken is not None
    assert "managedFields" not in taken["metadata"]
    assert taken["spec"] == service("5")["spec"]
    assert news.take(KEY) is None


def test_only_the_newest_of_what_was_heard_counts() -> None:
    news = PendingObjects(Clock())
    news.add(KEY, service("5"))
    news.add(KEY, service("9"))
    assert version_of(news.take(KEY)) == "9"


def test_the_echo_of_our_own_status_and_what_came_before_it_is_no_news() -> None:
    news = PendingObjects(Clock())
    news.mark_seen(KEY, "10")
    assert not news.add(KEY, service("10"))
    assert not news.add(KEY, service("9"))
    assert news.take(KEY) is None
    assert news.add(KEY, service("11"))


def test_a_status_that_we_write_makes_what_waits_old_but_not_what_came_after_it() -> None:
    news = PendingObjects(Clock())
    news.add(KEY, service("9"))
    news.mark_seen(KEY, "10")
    assert news.take(KEY) is None
    news.add(KEY, service("12"))
    news.mark_seen(KEY, "11")
    assert version_of(news.take(KEY)) == "12"


def test_a_list_may_go_back_in_versions_as_after_a_restored_backup() -> None:
    news = PendingObjects(Clock())
    news.mark_seen(KEY, "10")
    assert not news.add(KEY, service("10"), listed=True)
    assert news.add(KEY, service("7"), listed=True)
    assert version_of(news.take(KEY)) == "7"


def test_what_has_waited_for_long_is_asked_for_again() -> None:
    clock = Clock()
    news = PendingObjects(clock)
    news.add(KEY, service("5"))
    clock.now += MAX_AGE_S + 1
    assert news.take(KEY) is None


def test_a_service_that_is_gone_leaves_nothing() -> None:
    news = PendingObjects(Clock())
    news.add(KEY, service("5"))
    news.discard(KEY)
    assert news.take(KEY) is None
    news.mark_seen(KEY, "10")
    news.forget(KEY)
    assert news.add(KEY, service("3"))
