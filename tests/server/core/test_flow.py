"""A model is held while its client reads too slowly, and never for longer."""

import threading

import pytest

from naiad.core.flow import OVERRUN_BYTES, Flow
from tests.support.waiting import wait_until

GIVE_UP_S = 60
ONE_WRITER = threading.Lock()


class Sender:
    """A thread that sends answers of one byte until it was let through for the last one."""

    def __init__(self, flow: Flow, count: int) -> None:
        self.sent = 0
        self._flow = flow
        self._count = count
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for _ in range(self._count):
            with ONE_WRITER:
                self._flow.sent(1)
                self.sent += 1
            self._flow.wait()

    def waits(self) -> bool:
        """Whether it has come to wait, and stays there."""
        wait_until(lambda: self._flow._waiting or not self._thread.is_alive())
        self._thread.join(0.05)
        return self._thread.is_alive() and self._flow.is_full()

    def done(self) -> bool:
        self._thread.join(GIVE_UP_S)
        return not self._thread.is_alive()


def test_who_sends_within_the_limit_does_not_wait() -> None:
    flow = Flow(limit=10)
    for _ in range(10):
        flow.sent(1)
        flow.wait()
    assert not flow.is_full()


def test_who_passes_the_limit_waits_until_half_of_it_has_arrived() -> None:
    flow = Flow(limit=10)
    sender = Sender(flow, 12)
    assert sender.waits()
    assert sender.sent == 11
    for _ in range(5):
        flow.arrived(1)
    assert sender.sent == 11
    flow.arrived(1)
    assert sender.done()
    assert sender.sent == 12


def test_a_client_that_takes_nothing_holds_the_sender_whatever_has_arrived() -> None:
    flow = Flow(limit=10)
    flow.pause()
    sender = Sender(flow, 1)
    assert sender.waits()
    flow.arrived(1)
    assert sender.waits()
    flow.resume()
    assert sender.done()


def test_going_on_does_not_help_while_too_much_is_on_its_way() -> None:
    flow = Flow(limit=10)
    flow.sent(20)
    flow.pause()
    sender = Sender(flow, 1)
    flow.resume()
    assert sender.waits()
    flow.arrived(20)
    assert sender.done()


def test_once_closed_no_sender_waits_for_the_client() -> None:
    flow = Flow(limit=100)
    flow.pause()
    senders = [Sender(flow, 5) for _ in range(3)]
    assert all(sender.waits() for sender in senders)
    flow.close()
    assert all(sender.done() for sender in senders)
    assert [sender.sent for sender in senders] == [5, 5, 5]


def test_who_sends_on_after_it_was_closed_waits_for_what_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("naiad.core.flow.CLOSED_WAIT_S", 1_000)
    flow = Flow(limit=10)
    flow.pause()
    sender = Sender(flow, 30)
    assert sender.waits()
    flow.close()
    assert sender.waits()
    assert sender.sent == 11
    flow.arrived(11)
    assert sender.waits()
    assert sender.sent == 22
    flow.arrived(11)
    assert sender.done()


def test_who_sends_on_where_the_loop_has_ended_waits_no_longer_than_the_limit_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("naiad.core.flow.CLOSED_WAIT_S", 0.001)
    flow = Flow(limit=1)
    sender = Sender(flow, 10)
    assert sender.waits()
    flow.close()
    assert sender.done()
    assert sender.sent == 10


def test_what_comes_for_a_client_that_takes_nothing_is_counted_until_it_takes_again() -> None:
    flow = Flow()
    flow.coming(OVERRUN_BYTES + 1)
    assert not flow.overran()
    flow.pause()
    flow.coming(OVERRUN_BYTES + 1)
    flow.coming(OVERRUN_BYTES)
    assert not flow.overran()
    flow.coming(1)
    assert flow.overran()
    flow.resume()
    assert not flow.overran()


@pytest.mark.slow
def test_no_wake_up_is_lost_between_threads_that_race() -> None:
    flow = Flow(limit=8)
    senders = [Sender(flow, 2000) for _ in range(2)]
    arrived = 0
    while arrived < 4000:
        ready = sum(sender.sent for sender in senders)
        if ready > arrived:
            flow.arrived(ready - arrived)
            arrived = ready
    assert all(sender.done() for sender in senders)


def test_a_watcher_is_called_once_per_change_and_for_an_earlier_pause() -> None:
    flow = Flow()
    flow.pause()
    changes: list[bool] = []
    flow.watch(changes.append)
    flow.pause()
    flow.resume()
    flow.resume()
    flow.pause()
    assert changes == [True, False, True]


def test_who_watches_is_let_go_when_the_flow_is_closed_and_hears_no_more() -> None:
    flow = Flow()
    changes: list[bool] = []
    flow.watch(changes.append)
    flow.pause()
    flow.close()
    flow.pause()
    assert changes == [True, False]


def test_a_closed_flow_pauses_no_sender() -> None:
    flow = Flow()
    flow.pause()
    flow.close()
    changes: list[bool] = []
    flow.watch(changes.append)
    assert changes == []
