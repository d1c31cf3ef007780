"""Which opened allocations of other processes stay open, by numbers."""

from naiad.hosts.worker.gpu.handles import CLIENTS, IDLE_S, MOST_IDLE, Key, OpenHandles


def key(number: int, owner: int = 1) -> Key:
    return Key(owner, bytes([number]), 0)


def test_an_allocation_is_open_as_long_as_it_is_used_and_a_while_longer() -> None:
    handles = OpenHandles()
    assert handles.use(key(1)) is None
    handles.opened(key(1), 4096)
    assert handles.use(key(1)) == 4096
    handles.release(key(1), 1.0)
    assert handles.wait_s(1000.0) is None
    assert handles.take_due(1000.0) == []
    handles.release(key(1), 1000.0)
    assert handles.wait_s(1001.0) == IDLE_S - 1
    assert handles.take_due(1000.0 + IDLE_S - 0.1) == []
    assert handles.use(key(1)) == 4096
    handles.release(key(1), 1005.0)
    assert handles.take_due(1005.0 + IDLE_S) == [(key(1), 4096)]
    assert len(handles) == 0


def test_of_more_than_so_many_those_that_were_used_longest_ago_are_closed() -> None:
    handles = OpenHandles()
    for number in range(MOST_IDLE + 2):
        handles.opened(key(number), number)
    for number in reversed(range(MOST_IDLE + 2)):
        handles.release(key(number), 10.0 - number / 100)
    assert handles.wait_s(10.0) == 0
    assert [base for _, base in handles.take_due(10.0)] == [MOST_IDLE + 1, MOST_IDLE]


def test_those_of_a_process_that_has_ended_are_closed_as_soon_as_they_are_not_used() -> None:
    handles = OpenHandles()
    for owner in (1, 2):
        handles.opened(key(1, owner), owner)
    handles.end(1)
    assert handles.take_due(1.0) == []
    for owner in (1, 2):
        handles.release(key(1, owner), 1.0)
    assert handles.wait_s(1.0) == 0
    assert handles.take_due(1.0) == [(key(1, 1), 1)]
    assert len(handles) == 1


def test_a_clients_allocation_stays_open_until_it_has_ended() -> None:
    handles, key = OpenHandles(), Key(CLIENTS + 1, b"h", 0)
    handles.opened(key, 7)
    handles.release(key, 0.0)
    assert (handles.wait_s(IDLE_S * 9), handles.take_due(IDLE_S * 9)) == (None, [])
    handles.end(CLIENTS + 1)
    assert handles.wait_s(IDLE_S * 9) == 0
    assert handles.take_due(IDLE_S * 9) == [(key, 7)]
    # Registered again: what has ended before does not count.
    handles.opened(key, 8)
    handles.release(key, 0.0)
    assert handles.take_due(IDLE_S) == []
