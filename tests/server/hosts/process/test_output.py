"""What a model in a worker process prints and logs: under its name, whatever it does to its own output."""

import asyncio
import logging

import pytest

from tests.server.hosts.process.workers import Hosts

pytestmark = pytest.mark.slow


async def test_prints_and_log_lines_come_out_with_the_model_s_and_the_instance_s_name(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    hosted = await hosts.start(
        """
        def initialize(self, args):
            print("first\\nsecond")
            pb_utils.Logger.log_warn("third")
            print("fourth", file=sys.stderr)
            sys.stdout.write("unfinished")
        def execute(self, requests):
            return same(requests)
        """
    )
    await hosted.host.close()
    said = [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name == "naiad.models.m"
    ]
    assert said == [
        ("INFO", "[m m_0_0] first"),
        ("INFO", "[m m_0_0] second"),
        ("WARNING", "[m m_0_0] third"),
        ("INFO", "[m m_0_0] fourth"),
        ("INFO", "[m m_0_0] unfinished"),
    ]
    record = next(record for record in caplog.records if record.getMessage().endswith("third"))
    assert record.filename == "model.py"


@pytest.mark.parametrize(
    "line",
    [
        "sys.stderr.close()",
        "sys.stderr = None",
        "sys.stderr = io.StringIO()",
        "sys.stdout = sys.stderr = open(os.devnull, 'w')",
        "os.close(2)",
    ],
)
async def test_a_model_that_leads_its_output_away_can_log_and_fail_as_ever(
    hosts: Hosts, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    hosted = await hosts.start(
        f"""
        def execute(self, requests):
            import io
            print("before", end="")
            {line}
            pb_utils.Logger.log_warn("a log line")
            raise ValueError("out of luck")
        """
    )
    pid = hosted.worker.pid
    error = (await hosted.run()).error
    assert error is not None
    assert "out of luck" in error.message
    await hosted.host.close()
    assert hosted.worker.pid in {0, pid}
    assert hosted.usable == []
    said = [record.getMessage() for record in caplog.records if record.name == "naiad.models.m"]
    assert said[:2] == ["[m m_0_0] before", "[m m_0_0] a log line"]


async def test_a_model_that_prints_without_end_leaves_the_loop_time_for_others(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    hosted = await hosts.start(
        """
        def execute(self, requests):
            os.write(1, b"a line\\n" * 7000)
            return same(requests)
        """
    )
    running = asyncio.ensure_future(hosted.run())
    most = told = 0
    while not running.done() or told < 7000:
        await asyncio.sleep(0)
        before, told = told, len(caplog.records)
        most = max(most, told - before)
    assert running.result().error is None
    assert most < 500
