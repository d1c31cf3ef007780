"""A codec without processes: functions are called in its threads, and what goes to and fro is pickled as for a process."""

import asyncio
import threading
import typing

from typing_extensions import override

from naiad.protocol.codec import frames
from naiad.protocol.codec.pool import Codec


class InlineCodec(Codec):
    """Implements `Codec`.

    Attributes:
        gate: calls wait until it is set.
        called: the names of the functions, in their order.
        error: raised by calls in place of what their functions do.
    """

    def __init__(self, *, held: bool = False) -> None:
        super().__init__(processes=1)
        self.gate = threading.Event()
        if not held:
            self.gate.set()
        self.called: list[str] = []
        self.error: Exception | None = None

    @override
    def call(self, function: frames.Function, *arguments: typing.Any) -> typing.Any:
        self.called.append(function.__name__)
        self.gate.wait()
        if self.error is not None:
            raise self.error
        there = frames.read(frames.write(arguments))
        return frames.read(frames.write(function(*there)))

    async def idle(self) -> None:
        """Wait until everything that was submitted so far is done, and the loop was notified."""
        await asyncio.get_running_loop().run_in_executor(self.executor, lambda: None)
        for _ in range(3):
            await asyncio.sleep(0)
