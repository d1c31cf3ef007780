"""The server that a model under test calls: other models are fakes, metrics are real (rows 15.20 to 15.26)."""

import collections.abc
import types
from typing import Any

import numpy as np

from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.server import Asked, Deliver, wait_for_response
from naiad.core.response import InferResponse
from naiad.core.values import Values, to_tensor
from naiad.engine.bls.server_api import ModelMetrics, input_tensor, response_for_model
from naiad.errors import ErrorCode, InferenceError, invalid, not_found, unsupported
from naiad.metrics.custom import CustomMetrics
from naiad.metrics.exposition import in_braces
from naiad.testing.values import Request, Response

Reply = Response | collections.abc.Mapping[str, Values]
"""One response: outputs by name, or with parameters and error."""

Fake = collections.abc.Callable[[Request], Reply | collections.abc.Iterable[Reply]]
"""Replaces another model: returns one reply, or, as a generator or a list, those of a decoupled model. What it raises is the error of
the request: an `InferenceError` as it is, anything else as INTERNAL."""


class FakeServer(ModelMetrics):
    """Implements `Server`. Fakes run in the calling thread.

    Args:
        models: by name.

    Attributes:
        asked: the calls of other models, in order: name and request.
        unloaded: models that are not ready: unloaded by the model under test.
    """

    def __init__(self, models: collections.abc.Mapping[str, Fake]) -> None:
        super().__init__(CustomMetrics())
        self._models = models
        self.asked: list[tuple[str, Request]] = []
        self.unloaded = set[str]()

    def infer(
        self, outgoing: Asked, *, caller: Any, decoupled: bool, deliver: Deliver
    ) -> collections.abc.Callable[[], None]:
        """See `Server`."""
        request = Request(
            # Copied: the model may use its arrays again.
            {t.name(): np.array(input_tensor(t, keep=False).array) for t in outgoing.inputs},
            outgoing.parameters,
            id=outgoing.id,
            correlation_id=outgoing.correlation_id,
            flags=outgoing.flags,
            timeout_us=outgoing.timeout_us,
            requested_outputs=outgoing.output_names,
        )
        self.asked.append((outgoing.model_name, request))
        replies = self._replies(outgoing.model_name, request, decoupled=decoupled)
        # Sent one later, so that the last one is known.
        previous: InferResponse | None = None
        for reply in replies:
            if previous is not None:
                deliver(response_for_model(previous), False)
            previous = reply
        if previous is None:
            previous = _response(outgoing.model_name, Response({}))
        deliver(response_for_model(previous), True)
        return _nothing_to_cancel

    def infer_and_wait(self, outgoing: Asked, *, caller: Any) -> InferenceResponse:
        """See `Server`."""
        return wait_for_response(self, outgoing, caller=caller)

    def load_model(self, name: str, config: str, files: dict[str, bytes], *, caller: Any) -> None:
        """See `Server`."""
        if name not in self._models:
            raise TritonModelException(f"failed to load '{name}', {_unknown(name)}")
        self.unloaded.discard(name)

    def unload_model(self, name: str, *, unload_dependents: bool, caller: Any) -> None:
        """See `Server`."""
        self.unloaded.add(name)

    def model_ready(self, name: str, version: int) -> bool:
        """See `Server`."""
        return name in self._models and name not in self.unloaded

    def metrics(self) -> dict[str, float]:
        """The metrics that the model holds now, by name as the metrics page writes it: `name{label="value"}`."""
        return {
            f"{series.family.name}{sample.suffix}{in_braces(sample.labels)}": sample.value
            for series in self.custom.series()
            for sample in series.samples
        }

    def _replies(
        self, model: str, request: Request, *, decoupled: bool
    ) -> collections.abc.Iterator[InferResponse]:
        try:
            for reply in self._given(model, request, decoupled=decoupled):
                yield _response(model, reply)
        except InferenceError as error:
            yield _response(model, Response({}, error=error))
        except Exception as error:  # noqa: BLE001 - whatever a fake raises, the model gets it as it would from a server
            text = f"{type(error).__name__}: {error}"
            yield _response(model, Response({}, error=InferenceError(ErrorCode.INTERNAL, text)))

    def _given(
        self, model: str, request: Request, *, decoupled: bool
    ) -> collections.abc.Iterable[Reply]:
        """The replies of a fake. Raises the error of the request."""
        fake = self._models.get(model)
        if fake is None or model in self.unloaded:
            raise not_found(_unknown(model))
        reply: Any = fake(request)  # what a test writes may be anything
        if isinstance(reply, (Response, collections.abc.Mapping)):
            return (reply,)
        if not isinstance(reply, collections.abc.Iterable) or isinstance(reply, (str, bytes)):
            raise _no_reply(model, reply)
        if not decoupled:
            raise unsupported(
                f"the fake of model '{model}' is decoupled (it gives many replies): call it with exec(decoupled=True)"
            )
        return reply


def _response(model: str, reply: Reply) -> InferResponse:
    if not isinstance(reply, (Response, collections.abc.Mapping)):
        raise _no_reply(model, reply)
    outputs = reply.outputs if isinstance(reply, Response) else reply
    given = reply if isinstance(reply, Response) else Response({})
    return InferResponse(
        model,
        1,
        "",
        [to_tensor(name, values, None) for name, values in outputs.items()],
        dict(given.parameters),
        given.error,
    )


def _no_reply(model: str, reply: object) -> InferenceError:
    replied = "nothing" if reply is None else type(reply).__name__
    return invalid(
        f"the fake of model '{model}' replied {replied}: it has to reply a dict of outputs or a naiad.testing.Response"
    )


def _unknown(model: str) -> str:
    return f"Request for unknown model: '{model}' is not found: give load_model a fake of it, models={{\"{model}\": fake}}"


def _nothing_to_cancel() -> None:
    """Every reply has been given."""


NO_MODELS: collections.abc.Mapping[str, Fake] = types.MappingProxyType({})
