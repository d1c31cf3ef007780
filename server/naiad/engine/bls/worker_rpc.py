"""Handles the requests of models in worker processes to the server: the counterpart of `hosts/worker/asking.py`, as `server_api.py` is for threads."""

import asyncio
import collections.abc
import logging
from typing import Any

from naiad.core.device_tensor import DeviceTensor, OnDevice
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.bls.model_calls import ModelCall
from naiad.engine.bls.server_api import STOPPING, ServerApi, is_ready
from naiad.errors import InferenceError, unavailable
from naiad.hosts import packing, unpacking
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.host import BatchAt, Notify
from naiad.hosts.link import call as calls, codec, layouts
from naiad.hosts.link.kinds import ERROR, RESULT, TO_HOST
from naiad.hosts.link.payload import Payload
from naiad.repository.requests.overrides import CONFIG, Value
from naiad.scheduling.relays.calls import Caller

_log = logging.getLogger(__name__)

_CONTROL = frozenset(("load", "unload", "ready"))

_KNOWN = 256
_KNOWN_BYTES = 1024

_Fields = tuple[Any, ...]
"""The fields of a call that are in JSON, with `RequestedOutput`s."""


class ModelRpcHandler:
    """Implements `hosts.host.WorkerRpcHandler`."""

    def __init__(self, api: ServerApi, model: str, instance: str) -> None:
        self._api = api
        self._model = model
        self._instance = instance
        self._calls: dict[int, ModelCall] = {}
        self._families = set[int]()
        self._reader = layouts.Reader(unpacking.resolved)
        self._known: dict[bytes, _Fields] = {}

    def handle(
        self,
        number: int,
        header: bytes | bytearray,
        base: Any,
        *,
        batch_at: BatchAt,
        reply: Notify,
        lent: DeviceTensors | None = None,
    ) -> None:
        """See `WorkerRpcHandler`."""
        layout, text = self._reader.read(header)
        groups = layout.groups
        tensors = unpacking.tensors_of(base, groups[0], lent) if groups else []
        found = calls.read(text)
        if found is not None:
            on_device = OnDevice(groups[0][0][0]) if groups and groups[0][0] else None
            self._infer(
                number, found, tensors, on_device, batch_at=batch_at, reply=reply, lent=lent
            )
            return
        what, *rest = codec.read_json(text)
        if what == "cancel":
            call = self._calls.get(number)
            if call is not None:
                call.cancel()
        elif what == "close_family":
            self._families.discard(rest[0])
            self._api.custom.close_family(rest[0])
        elif what in _CONTROL:
            task = asyncio.get_running_loop().create_task(
                self._control(number, what, rest, tensors, reply)
            )
            self._api.tasks.add(task)
            task.add_done_callback(self._api.tasks.discard)
        else:
            self._handle_metrics(number, what, rest, reply)

    def worker_exited(self) -> None:
        """See `WorkerRpcHandler`."""
        for call in tuple(self._calls.values()):
            call.cancel()  # which may end it at once
        self._calls.clear()
        families, self._families = self._families, set()
        for family in families:
            self._api.custom.close_family(family)

    def _infer(
        self,
        number: int,
        asked: calls.Call,
        inputs: list[Tensor],
        on_device: OnDevice | None,
        *,
        batch_at: BatchAt,
        reply: Notify,
        lent: DeviceTensors | None,
    ) -> None:
        fields = self._known.get(asked.text) or self._fields(asked.text)
        name, version, request_id, correlation_id, flags, timeout_us, parameters, outputs = fields
        if not self._takes(name, version, inputs):
            reply(TO_HOST, number)
            return
        request = InferRequest(
            name,
            version,
            request_id,
            inputs,
            outputs,
            parameters.copy() if parameters else parameters,
            0,
            timeout_us,
            correlation_id,
            flags,
            on_device=on_device,
        )
        batch = batch_at(asked.first, asked.size) if asked.size else None
        caller = Caller(self._model, self._instance, batch, asked.blocks)
        traced = None
        if asked.traced is not None and (traces := batch_at(asked.traced, 1)):
            traced = traces[0].traced
        in_progress = self._calls
        is_over = False

        def respond(response: InferResponse) -> None:
            nonlocal is_over
            if response.final:
                is_over = True
                in_progress.pop(number, None)
            try:
                header, payload = _packed(response, lent)
            except Exception as failure:  # noqa: BLE001  whatever it is, the model waits for a reply
                _log.exception("a response for model '%s' could not be handed over", self._model)
                why = f"the response could not be handed over: {type(failure).__name__}: {failure}"
                # The worker cancels the responses that would follow.
                reply(ERROR, number, why.encode(errors="replace"))
                return
            reply(RESULT, number, header, payload)

        call = self._api.calls.begin(
            request,
            caller=caller,
            decoupled=asked.decoupled,
            on_response=respond,
            traced=traced,
        )
        if not is_over:
            in_progress[number] = call

    def _takes(self, name: str, version: int, inputs: list[Tensor]) -> bool:
        """Whether the model of a call takes its inputs where they are; one that is not found gets the call, which fails."""
        devices = {each.placed.device for each in inputs if type(each) is DeviceTensor}
        if not devices:
            return True
        found = self._api.calls.input_device(name, version)
        return found is None or devices == {found}

    def _fields(self, text: bytes) -> "_Fields":
        *plain, names = codec.read_json(text)
        fields: _Fields = (*plain, [RequestedOutput(name) for name in names])
        if len(text) <= _KNOWN_BYTES:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[text] = fields
        return fields

    async def _control(
        self,
        number: int,
        what: str,
        rest: collections.abc.Sequence[Any],
        files: list[Tensor],
        reply: Notify,
    ) -> None:
        error: str | None = None
        value: bool | None = None
        try:
            value = await self._controlled(what, rest, files)
        except InferenceError as failure:
            error = failure.message
        except asyncio.CancelledError:
            error = STOPPING
            raise
        except Exception as failure:  # noqa: BLE001  whatever it is, the model waits for a reply
            _log.exception("a request of model '%s' could not be handled", self._model)
            error = f"{type(failure).__name__}: {failure}"
        finally:
            reply(RESULT, number, _printed((error, value)))

    async def _controlled(
        self, what: str, rest: collections.abc.Sequence[Any], files: list[Tensor]
    ) -> bool | None:
        control = self._api.control
        if control is None:
            raise unavailable(STOPPING)
        match what, *rest:
            case "load", name, config, loads:
                parameters: dict[str, Value] = {file.name: file.array.data for file in files}
                if config:
                    parameters[CONFIG] = config
                requested_by = self._model if loads else ""
                await control.load_model(name, parameters, requested_by=requested_by)
                return None
            case "unload", name, dependents, loads:
                requested_by = self._model if loads else ""
                await control.unload_model(
                    name, unload_dependents=dependents, requested_by=requested_by
                )
                return None
            case _, name, version:
                return await is_ready(control, name, version)
            case _:
                raise AssertionError(what)

    def _handle_metrics(
        self, number: int, what: str, rest: collections.abc.Sequence[Any], reply: Notify
    ) -> None:
        metrics = self._api.custom
        operations: dict[str, collections.abc.Callable[..., Any]] = {
            "open_family": metrics.open_family,
            "open_metric": metrics.open_metric,
            "change_metric": metrics.change,
            "metric_value": metrics.value,
        }
        error: str | None = None
        value: Any = None
        try:
            value = operations[what](*rest)
        except ValueError as failure:
            error = str(failure)
        else:
            if what == "open_family":
                self._families.add(value)
        reply(RESULT, number, _printed((error, value)))


def _printed(reply: tuple[str | None, Any]) -> bytes:
    return codec.write([], codec.to_json(reply).encode())[0]


def _packed(response: InferResponse, lent: DeviceTensors | None) -> tuple[bytes, Payload]:
    group = (), packing.described(response.outputs, lent)
    if response.final and response.error is None and not response.parameters:
        return codec.write([group], codec.THE_RESPONSE)
    fields = (response.final, codec.error_fields(response.error), response.parameters)
    return codec.write([group], codec.to_json(fields).encode())
