"""One change of a model at a time, whole whoever leaves."""

import asyncio

import pytest

from naiad.errors import ErrorCode, InferenceError, invalid
from naiad.repository.turns import Operation, Turns


class Journal:
    """Operations that take a second each and note when they begin and end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def operation(self, title: str, failure: Exception | None = None) -> Operation:
        async def run() -> None:
            self.lines.append(f"{title} begins")
            await asyncio.sleep(1)
            self.lines.append(f"{title} ends")
            if failure is not None:
                raise failure

        return run


@pytest.mark.looptime
async def test_changes_of_one_name_follow_each_other_and_others_do_not_wait() -> None:
    turns, journal = Turns(), Journal()
    await asyncio.gather(
        turns.take("a", journal.operation("a1")),
        turns.take("a", journal.operation("a2")),
        turns.take("b", journal.operation("b")),
    )
    assert asyncio.get_running_loop().time() == 2
    assert [line for line in journal.lines if line[0] == "a"] == [
        "a1 begins", "a1 ends", "a2 begins", "a2 ends",
    ]  # fmt: skip
    assert journal.lines.index("b begins") < journal.lines.index("a1 ends")


@pytest.mark.looptime
async def test_who_leaves_does_not_stop_the_change_and_the_next_one_waits_for_it() -> None:
    turns, journal = Turns(), Journal()
    leaving = asyncio.create_task(turns.take("a", journal.operation("1")))
    waiting = asyncio.create_task(turns.take("a", journal.operation("2")))
    await asyncio.sleep(0.5)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await waiting
    assert journal.lines == ["1 begins", "1 ends", "2 begins", "2 ends"]


@pytest.mark.looptime
async def test_a_failure_is_its_callers_alone(caplog: pytest.LogCaptureFixture) -> None:
    turns, journal = Turns(), Journal()
    refused = turns.take("a", journal.operation("1", invalid("no")))
    broken = turns.take("a", journal.operation("2", RuntimeError("oh")))
    fine = turns.take("a", journal.operation("3"))
    first, second, third = await asyncio.gather(refused, broken, fine, return_exceptions=True)
    assert isinstance(first, InferenceError)
    assert first.message == "no"
    assert isinstance(second, InferenceError)
    assert second.code is ErrorCode.INTERNAL
    assert "changing model 'a' failed inside the server (RuntimeError: oh)" in second.message
    assert third is None
    assert len(caplog.records) == 1


@pytest.mark.looptime
async def test_a_failure_that_nobody_waits_for_is_no_noise() -> None:
    turns, journal = Turns(), Journal()
    leaving = asyncio.create_task(turns.take("a", journal.operation("1", invalid("no"))))
    await asyncio.sleep(0.5)
    leaving.cancel()
    await asyncio.sleep(1)
    assert journal.lines == ["1 begins", "1 ends"]
    await turns.give_up()


@pytest.mark.looptime
async def test_what_is_under_way_at_the_end_is_given_up_and_whoever_asked_hears_of_it() -> None:
    turns, journal = Turns(), Journal()
    asked = [asyncio.create_task(turns.take("a", journal.operation(each))) for each in "12"]
    await asyncio.sleep(0.5)
    await turns.give_up()
    failures = await asyncio.gather(*asked, return_exceptions=True)
    assert [failure.code for failure in failures if isinstance(failure, InferenceError)] == [
        ErrorCode.UNAVAILABLE
    ] * 2
    assert journal.lines == ["1 begins"]
