"""The ports of a server as one, in virtual time."""

import asyncio
import typing

import pytest

from naiad.options.parsing import parse
from naiad.serve.frontends import Frontends
from tests.support.clock import LoopClock

pytestmark = pytest.mark.looptime


class RecordedFrontend:
    """Implements `Frontend`; closing takes 20 s."""

    def __init__(self) -> None:
        self.address = ("127.0.0.1", 1)
        self.calls: list[str] = []

    async def reserve(self) -> None:
        self.calls.append("reserve")

    async def start(self) -> None:
        self.calls.append("start")

    def begin_drain(self) -> None:
        self.calls.append("begin_drain")

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - see `Frontend`
        self.calls.append(f"close {timeout:g}")
        await asyncio.sleep(20)
        return 0


def made(*ports: str) -> tuple[Frontends, dict[str, RecordedFrontend]]:
    nothing: typing.Any = None
    frontends = Frontends(
        options=parse(["--model-repository=/models"]),
        engine=nothing,
        states=list,
        system_metrics=list,
        gpu_uuids={},
        clock=LoopClock(asyncio.get_running_loop()),
    )
    recorded = {port: RecordedFrontend() for port in ports}
    for port, frontend in recorded.items():
        setattr(frontends, f"_{port}", frontend)
    return frontends, recorded


async def test_a_drain_reaches_both_protocols_and_not_the_metrics() -> None:
    frontends, recorded = made("http", "grpc", "metrics")
    frontends.begin_drain()
    await frontends.close(7)
    assert recorded["http"].calls == recorded["grpc"].calls == ["begin_drain", "close 7"]
    assert recorded["metrics"].calls == []


async def test_ports_close_side_by_side() -> None:
    frontends, _ = made("http", "grpc")
    await frontends.close(30)
    assert asyncio.get_running_loop().time() == 20


async def test_a_port_that_is_not_allowed_is_left_out() -> None:
    frontends, recorded = made("grpc")
    await frontends.accept()
    await frontends.close(0)
    assert recorded["grpc"].calls == ["start", "close 0"]
