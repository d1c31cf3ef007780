"""Operations on one model run one after the other, and to their end."""

import asyncio

import pytest

from naiad.errors import ErrorCode, InferenceError, invalid
from naiad.repository.per_model_lock import Operation, PerModelLock


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
async def test_operations_on_one_model_run_in_order_and_others_at_the_same_time() -> None:
    lock, journal = PerModelLock(), Journal()
    await asyncio.gather(
        lock.run("a", journal.operation("a1")),
        lock.run("a", journal.operation("a2")),
        lock.run("b", journal.operation("b")),
    )
    assert asyncio.get_running_loop().time() == 2
    assert [line for line in journal.lines if line[0] == "a"] == [
        "a1 begins", "a1 ends", "a2 begins", "a2 ends",
    ]  # fmt: skip
    assert journal.lines.index("b begins") < journal.lines.index("a1 ends")


@pytest.mark.looptime
async def test_a_cancelled_caller_does_not_cancel_the_operation_and_the_next_one_waits() -> None:
    lock, journal = PerModelLock(), Journal()
    gone = asyncio.create_task(lock.run("a", journal.operation("1")))
    waiting = asyncio.create_task(lock.run("a", journal.operation("2")))
    await asyncio.sleep(0.5)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await waiting
    assert journal.lines == ["1 begins", "1 ends", "2 begins", "2 ends"]


@pytest.mark.looptime
async def test_a_failure_reaches_only_its_own_caller(caplog: pytest.LogCaptureFixture) -> None:
    lock, journal = PerModelLock(), Journal()
    refused = lock.run("a", journal.operation("1", invalid("no")))
    broken = lock.run("a", journal.operation("2", RuntimeError("oh")))
    fine = lock.run("a", journal.operation("3"))
    first, second, third = await asyncio.gather(refused, broken, fine, return_exceptions=True)
    assert isinstance(first, InferenceError)
    assert first.message == "no"
    assert isinstance(second, InferenceError)
    assert second.code is ErrorCode.INTERNAL
    assert "changing model 'a' failed inside the server (RuntimeError: oh)" in second.message
    assert third is None
    assert len(caplog.records) == 1


@pytest.mark.looptime
async def test_a_failure_without_a_caller_is_not_logged() -> None:
    lock, journal = PerModelLock(), Journal()
    gone = asyncio.create_task(lock.run("a", journal.operation("1", invalid("no"))))
    await asyncio.sleep(0.5)
    gone.cancel()
    await asyncio.sleep(1)
    assert journal.lines == ["1 begins", "1 ends"]
    await lock.cancel_all()


@pytest.mark.looptime
async def test_operations_in_progress_at_the_end_are_cancelled_and_their_callers_get_unavailable() -> (
    None
):
    lock, journal = PerModelLock(), Journal()
    asked = [asyncio.create_task(lock.run("a", journal.operation(each))) for each in "12"]
    await asyncio.sleep(0.5)
    await lock.cancel_all()
    failures = await asyncio.gather(*asked, return_exceptions=True)
    assert [failure.code for failure in failures if isinstance(failure, InferenceError)] == [
        ErrorCode.UNAVAILABLE
    ] * 2
    assert journal.lines == ["1 begins"]
