"""What a second signal means, with times as numbers."""

import signal

import pytest

from naiad.serve.signals import StopSignals

TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


@pytest.mark.parametrize(
    ("signals", "forced"),
    [
        ([(TERM, 0.0)], [False]),
        ([(TERM, 0.0), (TERM, 0.002)], [False, False]),
        ([(TERM, 0.0), (TERM, 0.002), (TERM, 0.999)], [False, False, False]),
        ([(TERM, 0.0), (TERM, 1.0)], [False, True]),
        ([(TERM, 0.0), (INT, 0.002)], [False, False]),
        ([(HUP, 0.0), (TERM, 0.002), (HUP, 1.5)], [False, False, True]),
        ([(INT, 0.0), (TERM, 0.002)], [False, False]),
        ([(INT, 0.0), (INT, 0.2)], [False, True]),
        ([(INT, 0.0), (TERM, 0.1), (INT, 0.2)], [False, False, True]),
    ],
    ids=str,
)
def test_only_a_second_ctrl_c_or_a_signal_a_second_later_forces_the_exit(
    signals: list[tuple[signal.Signals, float]], forced: list[bool]
) -> None:
    stop = StopSignals()
    assert [stop.forces_exit(number, 100.0 + at) for number, at in signals] == forced
    assert stop.first is signals[0][0]
