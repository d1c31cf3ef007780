"""One TritonPythonModel as an `Instance`: batches in, what `execute` returned out (rows 15.6, 15.7, 15.10-15.14).

The hot path of the benchmark: a request costs the instance's thread a few microseconds here, and whatever could be done once per
batch or once per load is done there. How the model is called is in `served_model.py`.

Responses may also be deferred, through senders (rows 15.8, 15.9, 15.16, 15.17): a decoupled model defers all of
them, an ordinary one those of the requests whose sender it takes. They go through the host's `Responder`.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

from collections.abc import Sequence
from typing import Any

from naiad.backends.instance import NO_RESPONDER, Call, Execution, Output, Responder, Response
from naiad.backends.python.api import datatypes
from naiad.backends.python.api.errors import TritonError
from naiad.backends.python.api.response import InferenceResponse, contents_of
from naiad.backends.python.api.tensor import parts_of
from naiad.backends.python.served_model import DEFERRED, ServedModel
from naiad.errors import ErrorCode, FailureReason, InferenceError


class PythonInstance(ServedModel):
    """Implements `Instance`, and `ResponseChannel` for its senders. The arguments are those of `ServedModel`."""

    holds_interpreter = True
    defers = True
    keeps_arrays = True

    _responder: Responder = NO_RESPONDER

    def execute(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, batch: "Sequence[Call]"
    ) -> "Execution[Response]":
        """Call the model's `execute` with a batch.

        Raises:
            InferenceError: INTERNAL: it raised, or did not return a list of one InferenceResponse for each request.
        """
        returned, begun_ns, ended_ns = self._call(batch)
        responses = [
            None if each is DEFERRED else self._response(each, call.request.output_names)
            for each, call in zip(returned, batch)  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        ]
        return Execution(responses, begun_ns, ended_ns)

    def respond_through(  # type: ignore[explicit-override]  # as above
        self, responder: Responder
    ) -> None:
        """See `Instance`."""
        self._responder = responder

    def send(
        self, call: Any, response: "InferenceResponse | None", *, final: bool, begun_ns: int
    ) -> None:
        """See `ResponseChannel`."""
        made = None if response is None else self._response(response, call.request.output_names)
        self._responder.send(call, made, final=final, begun_ns=begun_ns)

    def pace(self, call: Any) -> None:
        """See `ResponseChannel`."""
        # A coroutine would keep all others of its instance waiting, perhaps for the one that its client reads first.
        if not self._coroutines.is_this_thread():
            self._responder.wait_for_capacity(call)

    def _fail_deferred(  # type: ignore[explicit-override]  # as above
        self, call: Any, error: InferenceError, begun_ns: int
    ) -> None:
        self._responder.send(call, Response([], {}, error.bare()), final=True, begun_ns=begun_ns)

    def _response(self, returned: Any, wanted: "list[str]") -> Response:
        """A response of the model's, with what the request asks for, in the model's order."""
        self._check_response(returned)
        tensors, error, parameters = contents_of(returned)
        if error is not None:
            return Response([], {}, _error_of(error))
        names = self.all_outputs
        outputs: list[Output] = []
        for tensor in tensors:
            name, array, code = parts_of(tensor)
            if name not in names:
                self._note_dropped(name)
            elif not wanted or name in wanted:
                outputs.append((name, datatypes.WIRE_NAMES[code], array))
        return Response(outputs, parameters)


def _error_of(error: TritonError) -> InferenceError:
    return InferenceError(
        ErrorCode[error.code().name], error.message(), reason=FailureReason.BACKEND
    )
