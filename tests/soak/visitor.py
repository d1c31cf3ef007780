"""One client of the soak: it asks one thing after the other over HTTP, gRPC and streams, leaves now and then, and compares each answer with what it has to be."""

import asyncio
import random
import time

from tests.soak import repository
from tests.soak.asking import REFUSED, Client, ConnectionBrokenError, Place, Question, judged
from tests.soak.grpc_client import GrpcClient, StreamClient
from tests.soak.http_client import HttpClient
from tests.soak.plan import Ledger, Plan

HUNG_S = 30.0
"""An answer that takes longer has not come."""

_NARROW, _WIDE = 4, 20_000
_VALUES, _CACHED_VALUES = 1_000_000, 50
_SEQUENCE = 6
_STREAM_ENDS = 0.05
_BY_HTTP, _BY_GRPC = 0.7, 0.85


class Visitor:
    """A client.

    Args:
        http: the port.
        grpc: the address.
        plan: what it does.
        ledger: what is left to ask.
        draw: gives what is drawn.
    """

    def __init__(
        self, *, http: int, grpc: str, plan: Plan, ledger: Ledger, draw: random.Random
    ) -> None:
        self._plan = plan
        self._ledger = ledger
        self._draw = draw
        self._http = HttpClient(http)
        self._grpc = GrpcClient(grpc)
        self._stream = StreamClient(grpc)

    async def run(self) -> None:
        """Ask until nothing is left."""
        while number := self._ledger.take():
            model = self._draw.choice(self._plan.models)
            client = self._client(model)
            if model in repository.SEQUENCES:
                await self._ask_sequence(client, model, number)
            else:
                await self._ask_once(client, model, number)
            if client is self._stream and self._draw.random() < _STREAM_ENDS:
                await self._end_stream()
        await self.close()

    async def ask_each(self) -> None:
        """Ask each model once by each protocol, and close what was opened."""
        for model in self._plan.models:
            for client in (self._http, self._grpc, self._stream):
                if client is self._grpc and model == repository.STREAM:
                    continue
                place = None
                if model in repository.SEQUENCES:
                    place = Place(_key(model, -id(client) % 2**31), start=True, end=True)
                await self._ask(client, Question(model, _row(model, 1.0), place))
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()
        await self._grpc.close()
        await self._end_stream()
        await self._stream.close()

    def _client(self, model: str) -> Client:
        drawn = self._draw.random()
        if drawn < _BY_HTTP:
            return self._http
        alone = drawn < _BY_GRPC and model != repository.STREAM  # which takes a stream
        return self._grpc if alone else self._stream

    async def _ask_once(self, client: Client, model: str, number: int) -> None:
        draw, plan = self._draw, self._plan
        value = float(number % (_CACHED_VALUES if model == repository.CACHED else _VALUES) + 1)
        wide = draw.random() < plan.wide
        hangs = model == repository.HANGS and draw.random() < plan.hanging
        row = _row(model, -value if hangs else value, wide=wide)
        await self._ask(client, Question(model, row), self._leave())

    async def _ask_sequence(self, client: Client, model: str, number: int) -> None:
        """Ask for the sum of what came before, request by request, until its end, or leave."""
        draw, key = self._draw, _key(model, number)
        length, total, since = draw.randint(1, _SEQUENCE), 0.0, 0.0
        for position in range(length):
            value = float(number % _VALUES + 1)
            total += value
            place = Place(key, start=position == 0, end=position == length - 1)
            question = Question(model, [value], place, since)
            since = time.monotonic()
            if await self._ask(client, question, self._leave(), wanted=[total]) != "answered":
                return
            if not place.end and draw.random() < self._plan.abandoned:
                return
            if not place.end:
                number = self._ledger.take()
                if not number:
                    return

    def _leave(self) -> float | None:
        draw = self._draw
        return draw.random() * 0.01 if draw.random() < self._plan.cancelled else None

    async def _ask(
        self,
        client: Client,
        question: Question,
        leave_after_s: float | None = None,
        *,
        wanted: list[float] | None = None,
    ) -> str:
        """Ask, and count what came of it."""
        fault = ""
        try:
            async with asyncio.timeout(HUNG_S):
                told = await client.ask(question, leave_after_s=leave_after_s)
        except TimeoutError:
            outcome, fault = "hung", f"no answer within {HUNG_S:g} s"
        except ConnectionBrokenError as error:
            outcome, fault = "broken", f"the connection broke: {error}"
        else:
            if told is None:
                outcome = "given up"
            else:
                outcome, fault = judged(question, wanted or question.values, told)
        if fault and question.place is not None:
            fault += f" ({question.place})"
        self._ledger.count(question.model, outcome, fault)
        if outcome not in ("answered", "given up", REFUSED):
            await self._reconnect(client)
        return outcome

    async def _reconnect(self, client: Client) -> None:
        try:
            async with asyncio.timeout(HUNG_S):
                await client.close()
        except (TimeoutError, ConnectionBrokenError) as error:
            self._ledger.count("connection", "not closed", str(error))

    async def _end_stream(self) -> None:
        try:
            async with asyncio.timeout(HUNG_S):
                await self._stream.end()
        except (TimeoutError, ConnectionBrokenError) as error:
            self._ledger.count("stream", "not ended", f"{type(error).__name__} {error}")


def _key(model: str, number: int) -> int | str:
    """A correlation ID that no other sequence has."""
    return f"sequence {number}" if model == repository.OLDEST else number


def _row(model: str, value: float, *, wide: bool = False) -> list[float]:
    if model == repository.STREAM or model in repository.SEQUENCES:
        return [value]
    return [value] * (_WIDE if wide else _NARROW)
