"""Clients over gRPC: single calls, and one stream for any number of requests, one after the other."""

import asyncio
import itertools
import typing

import grpc
import grpc.aio
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.soak import repository
from tests.soak.asking import ConnectionBrokenError, Question, Told

_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
"""Each channel has a connection of its own."""


class _Channel:
    """A channel that is opened when it is first used, and again after it was closed."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel: grpc.aio.Channel | None = None

    def stub(self) -> typing.Any:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=_OPTIONS)
        make: typing.Any = service_pb2_grpc.GRPCInferenceServiceStub
        return make(self._channel)

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()


class GrpcClient:
    """Implements `Client` with single calls. Every other one that it gives up takes the connection with it."""

    def __init__(self, address: str) -> None:
        self._channel = _Channel(address)
        self._given_up = 0

    async def ask(self, question: Question, *, leave_after_s: float | None = None) -> Told | None:
        """See `Client`."""
        call = self._channel.stub().ModelInfer(_request(question, ""))
        try:
            async with asyncio.timeout(leave_after_s):
                return Told([_row(await call)])
        except TimeoutError:
            call.cancel()
            self._given_up += 1
            if self._given_up % 2:
                await self._channel.close()
            return None
        except grpc.aio.AioRpcError as error:
            return _told(error)

    async def close(self) -> None:
        """See `Client`."""
        await self._channel.close()


class StreamClient:
    """Implements `Client` with one stream, which it cancels to give up a request; every other time with its connection."""

    def __init__(self, address: str) -> None:
        self._channel = _Channel(address)
        self._call: typing.Any = None
        self._numbers = itertools.count(1)
        self._given_up = 0

    async def ask(self, question: Question, *, leave_after_s: float | None = None) -> Told | None:
        """See `Client`."""
        if self._call is None:
            self._call = self._channel.stub().ModelStreamInfer()
        number = str(next(self._numbers))
        try:
            async with asyncio.timeout(leave_after_s):
                await self._call.write(_request(question, number))
                return await self._read(question.model, number)
        except TimeoutError:
            self._given_up += 1
            await self._break(with_connection=bool(self._given_up % 2))
            return None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            await self._break(with_connection=True)
            raise ConnectionBrokenError(str(error)) from error

    async def end(self) -> None:
        """Ends the stream in good order; its connection stays."""
        call, self._call = self._call, None
        if call is not None:
            await call.done_writing()
            while (response := await call.read()) is not grpc.aio.EOF:
                raise ConnectionBrokenError(f"a response that no request has: {response}")

    async def close(self) -> None:
        """See `Client`."""
        await self.end()
        await self._channel.close()

    async def _read(self, model: str, number: str) -> Told:
        rows: list[list[float]] = []
        while True:
            response = await self._call.read()
            if response is grpc.aio.EOF:
                raise ConnectionBrokenError("the server ended the stream")
            inner = response.infer_response
            if inner.id != number:
                raise ConnectionBrokenError(f"a response of request {inner.id} to {number}")
            if response.error_message:
                return Told(rows, response.error_message, unavailable=None)
            if inner.raw_output_contents:
                rows.append(_row(inner))
            if model != repository.STREAM or inner.parameters["triton_final_response"].bool_param:
                return Told(rows)

    async def _break(self, *, with_connection: bool) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        if with_connection:
            await self._channel.close()


def _request(question: Question, number: str) -> typing.Any:
    messages: typing.Any = service_pb2
    request = messages.ModelInferRequest(model_name=question.model, id=number)
    shape = [1] if question.model == repository.STREAM else [1, len(question.values)]
    request.inputs.add(name="x", datatype="FP32", shape=shape)
    request.raw_input_contents.append(np.array(question.values, np.float32).tobytes())
    if question.model == repository.STREAM:
        request.parameters["triton_enable_empty_final_response"].bool_param = True
    place = question.place
    if place is not None:
        if isinstance(place.key, str):
            request.parameters["sequence_id"].string_param = place.key
        else:
            request.parameters["sequence_id"].int64_param = place.key
        request.parameters["sequence_start"].bool_param = place.start
        request.parameters["sequence_end"].bool_param = place.end
    return request


def _row(response: typing.Any) -> list[float]:
    values: list[float] = np.frombuffer(response.raw_output_contents[0], np.float32).tolist()
    return values


def _told(error: grpc.aio.AioRpcError) -> Told:
    return Told(
        [], error.details() or str(error), unavailable=error.code() is grpc.StatusCode.UNAVAILABLE
    )
