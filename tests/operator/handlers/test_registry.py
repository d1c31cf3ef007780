"""The settings of kopf."""

import collections.abc
import itertools

from naiad_operator.handlers import registry


def test_an_unreachable_api_server_is_retried_without_an_end() -> None:
    backoffs = registry.settings().networking.error_backoffs
    assert isinstance(backoffs, collections.abc.Iterable)
    # An hour and more of waiting, and no number after which kopf would count the last try.
    waits = list(itertools.islice(backoffs, 500))
    assert len(waits) == 500
    assert not isinstance(backoffs, collections.abc.Sized)
    assert sum(waits) > 3600
    assert min(waits) > 0
    assert max(waits) <= 10
    assert waits == sorted(waits)


def test_every_request_begins_with_short_waits() -> None:
    backoffs = registry.settings().networking.error_backoffs
    assert isinstance(backoffs, collections.abc.Iterable)
    first, second = (list(itertools.islice(backoffs, 20)) for _ in range(2))
    assert first == second
    assert first[0] <= 1
