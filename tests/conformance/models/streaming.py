"""Answers through a response sender as the BYTES input SCRIPT says: steps, separated by blanks, one after the other.

`<n>` sends n numbers, `end` the final flag alone, `<n>+end` numbers with the final flag, `error` an error, `parameters` a response with
parameters, `seen` what the request looks like as JSON, `cancelled` waits until the client is gone. `raise` raises, `flag` and
`nothing` send what is refused, `return` first returns a list. What a wrong use of the sender raises is sent in SEEN.
"""

import json
import threading
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
_TIMEOUT_S = 10


class TritonPythonModel:
    """Plays scripts; those that begin with `thread` in a thread of their own."""

    def execute(self, requests: list[Any]) -> Any:
        """Plays the script of each request."""
        returned = None
        for request in requests:
            script = pb_utils.get_input_tensor_by_name(request, "SCRIPT").as_numpy().ravel()[0]
            first, *steps = script.decode().split()
            sender = request.get_response_sender()
            if first == "thread":
                threading.Thread(target=_play, args=(steps, request, sender)).start()
            elif first == "return":
                returned = [pb_utils.InferenceResponse([_numbers(1)]) for _ in requests]
            else:
                _play([first, *steps], request, sender)
        return returned


def _play(steps: list[str], request: Any, sender: Any) -> None:
    for step in steps:
        try:
            _step(step, request, sender)
        except pb_utils.TritonModelException as error:
            sender.send(pb_utils.InferenceResponse([_text(str(error))]))


def _step(step: str, request: Any, sender: Any) -> None:
    name, _, rest = step.partition("+")
    flags = FINAL if "end" in (name, rest) else 0
    if name.isdigit():
        sender.send(pb_utils.InferenceResponse([_numbers(int(name))]), flags)
    elif name in _ANSWERS:
        sender.send(_ANSWERS[name](request), flags)
    elif name == "cancelled":
        _await_cancel(request, sender)
    elif name == "raise":
        raise ValueError("raised on purpose")
    else:
        sender.send(flags=7 if name == "flag" else flags)


def _await_cancel(request: Any, sender: Any) -> None:
    print("streaming: waiting", flush=True)  # noqa: T201 (the scenario reads it in the server's log)
    until = time.monotonic() + _TIMEOUT_S
    while not (sender.is_cancelled() and request.is_cancelled()) and time.monotonic() < until:
        time.sleep(0.01)
    print(f"streaming: cancelled {sender.is_cancelled()}", flush=True)  # noqa: T201 (as above)


def _error(_request: Any) -> Any:
    error = pb_utils.TritonError("told to fail", pb_utils.TritonError.NOT_FOUND)
    return pb_utils.InferenceResponse(error=error)


def _parameters(_request: Any) -> Any:
    given = {"word": "w", "number": 3, "yes": True}
    return pb_utils.InferenceResponse([_numbers(1)], parameters=given)


def _seen(request: Any) -> Any:
    inputs = {each.name(): each.as_numpy() for each in request.inputs() if each.name() != "SCRIPT"}
    text = json.dumps(
        {
            "id": request.request_id(),
            "parameters": json.loads(request.parameters() or "{}"),
            "inputs": {name: [list(array.shape), array.tolist()] for name, array in inputs.items()},
        },
        sort_keys=True,
        default=str,
    )
    return pb_utils.InferenceResponse([_text(text)])


_ANSWERS: dict[str, Any] = {
    "error": _error,
    "parameters": _parameters,
    "seen": _seen,
}


def _numbers(count: int) -> Any:
    return pb_utils.Tensor("OUT", np.arange(count, dtype=np.int32))


def _text(text: str) -> Any:
    return pb_utils.Tensor("SEEN", np.array([text.encode()], dtype=np.object_))
