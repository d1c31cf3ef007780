"""An executor whose threads were started early starts none when work comes."""

import concurrent.futures
import threading

import pytest

from naiad.core.threads import start_all


@pytest.mark.parametrize("count", [1, 5])
def test_all_threads_run_and_work_starts_no_other_one(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with concurrent.futures.ThreadPoolExecutor(count, "early") as executor:
        start_all(executor, count)
        assert sum(each.name.startswith("early") for each in threading.enumerate()) == count

        def refuse(thread: threading.Thread) -> None:
            raise AssertionError(f"{thread.name} is started")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        barrier = threading.Barrier(count)
        work = [executor.submit(barrier.wait, 60) for _ in range(count)]
        assert sorted(each.result(60) for each in work) == list(range(count))
