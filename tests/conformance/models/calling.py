"""Asks other models, the server and its metrics inside the server, and answers with what came of it, as JSON.

The BYTES input PROBE names one of the probes below. A probe that raises answers with the exception's class and text.
"""

import asyncio
import inspect
import json
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it

_FOUR = np.arange(4, dtype=np.float32)


class TritonPythonModel:
    """Answers one probe a request."""

    def initialize(self, args: dict[str, str]) -> None:
        """Tries what is not allowed yet, and what is."""
        self.kept: list[Any] = []
        self.args = args
        try:
            _ask("identity").exec()
        except Exception as error:  # noqa: BLE001 (the answer is which one)
            self.early = _raised(error)

    async def execute(self, requests: list[Any]) -> list[Any]:
        """Runs the probe that each request names."""
        responses = []
        for request in requests:
            probe = (
                pb_utils.get_input_tensor_by_name(request, "PROBE").as_numpy().ravel()[0].decode()
            )
            try:
                found = _PROBES[probe](self)
                if inspect.iscoroutine(found):
                    found = await found
            except Exception as error:  # noqa: BLE001 (the answer is which one)
                found = _raised(error)
            text = np.array([json.dumps(found, sort_keys=True, default=str).encode()], np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("REPORT", text)]))
        return responses


def _raised(error: Exception) -> dict[str, str]:
    return {"raised": type(error).__name__, "text": str(error)}


def _ask(model: str, value: Any = _FOUR, **more: Any) -> Any:
    given = {
        "inputs": [pb_utils.Tensor("IN", value)],
        "requested_output_names": ["OUT"],
        "model_name": model,
        **more,
    }
    return pb_utils.InferenceRequest(**given)


def _seen(response: Any) -> Any:
    if response.has_error():
        error = response.error()
        return {"message": error.message(), "code": int(error.code())}
    return {
        output_tensor.name(): output_tensor.as_numpy().tolist()
        for output_tensor in response.output_tensors()
    }


def _described(**more: Any) -> Any:
    delay = pb_utils.Tensor("DELAY_MS", np.zeros(1, np.int32))
    asked = _ask("report", inputs=[delay], requested_output_names=["REPORT"], **more)
    (output,) = asked.exec().output_tensors()
    document = json.loads(output.as_numpy()[0])
    return {key: value for key, value in document.items() if key not in {"instance", "time"}}


async def _many(model: str) -> Any:
    return [
        _seen(each)
        for each in await asyncio.gather(*(_ask(model, _FOUR + n).async_exec() for n in range(5)))
    ]


def _streamed(script: str, **more: Any) -> Any:
    words = pb_utils.Tensor("SCRIPT", np.array([script.encode()], np.object_))
    return _ask("streaming", inputs=[words], requested_output_names=["OUT"], **more)


def _iterated(script: str) -> Any:
    responses = _streamed(script).exec(decoupled=True)
    first = [_seen(response) for response in responses]
    return {
        "first": first,
        "again": [_seen(response) for response in responses],
        "next": next(responses, "over"),
    }


async def _awaited(script: str) -> Any:
    found = await asyncio.gather(*(_streamed(script).async_exec(decoupled=True) for _ in range(3)))
    return [[_seen(response) for response in responses] for responses in found]


def _cancelled() -> Any:
    responses = _streamed("1 cancelled end").exec(decoupled=True)
    first = _seen(next(responses))
    responses.cancel()
    return [first, *(_seen(response) for response in responses)]


def _in_threads() -> Any:
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        found[number] = _seen(_ask("identity", _FOUR + number).exec())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _counter(model: TritonPythonModel) -> Any:
    family = pb_utils.MetricFamily("calling_counter", "Counts", pb_utils.MetricFamily.COUNTER)
    model.kept.append(family)
    metric = family.Metric(labels={"b": "2", "a": "1"})
    metric.increment(2.5)
    metric.increment(0)
    twice = family.Metric(labels={"b": "2", "a": "1"})
    twice.increment(1)
    same = pb_utils.MetricFamily("calling_counter", "Others", pb_utils.MetricFamily.COUNTER)
    third = same.Metric(labels={"c": "3"})
    third.increment(7)
    return [metric.value(), twice.value(), third.value()]


def _gauge(model: TritonPythonModel) -> Any:
    family = pb_utils.MetricFamily("calling_gauge", "Measures", pb_utils.MetricFamily.GAUGE)
    model.kept.append(family)
    metric = family.Metric(labels={"x": 'a"b'})
    metric.set(3)
    metric.increment(-5)
    return metric.value()


def _histogram(model: TritonPythonModel) -> Any:
    family = pb_utils.MetricFamily("calling_histogram", "Spreads", pb_utils.MetricFamily.HISTOGRAM)
    model.kept.append(family)
    metric = family.Metric(labels={"x": "y"}, buckets=[0.1, 1.0, 2.5])
    for value in (0.05, 0.1, 2, 100):
        metric.observe(value)
    return "observed"


def _metric(model: TritonPythonModel, kind: str, operation: str, *values: float) -> Any:
    family = pb_utils.MetricFamily(
        f"calling_wrong_{kind}", "Wrong", getattr(pb_utils.MetricFamily, kind.upper())
    )
    # Or the reference may end: it does not like a family that is dropped while an exception propagates.
    model.kept.append(family)
    metric = family.Metric(labels={}, buckets=[1.0] if kind == "histogram" else None)
    return getattr(metric, operation)(*values)


def _other_kind(model: TritonPythonModel) -> Any:
    one = pb_utils.MetricFamily("calling_kind", "One", pb_utils.MetricFamily.COUNTER)
    model.kept.append(one)
    other = pb_utils.MetricFamily("calling_kind", "Other", pb_utils.MetricFamily.GAUGE)
    return [str(one), str(other)]


def _deleted() -> Any:
    metric = pb_utils.MetricFamily("calling_gone", "Gone", pb_utils.MetricFamily.GAUGE).Metric(
        labels={"a": "b"}
    )
    metric.set(1)
    return metric.value()


def _family(model: TritonPythonModel, kind: str = "COUNTER", **more: Any) -> Any:
    family = pb_utils.MetricFamily(
        f"calling_family_{kind}", "Family", getattr(pb_utils.MetricFamily, kind)
    )
    model.kept.append(family)
    return family.Metric(**more).value()


def _controlled() -> Any:
    found = [pb_utils.is_model_ready("batched")]
    pb_utils.load_model("batched")
    found += [
        pb_utils.is_model_ready("batched"),
        pb_utils.is_model_ready("batched", "1"),
        pb_utils.is_model_ready("batched", "7"),
    ]
    answer = _seen(_ask("batched", _FOUR.reshape(1, 4)).exec())
    pb_utils.unload_model("batched")
    return [*found, answer]


_IDENTITY = json.dumps(
    {
        "backend": "python",
        "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [4]}],
    }
)


def _load_sent(model: TritonPythonModel, path: str = "1/model.py", **given: str) -> Any:
    """Loads a model from the source of `identity`, asks it, and unloads it."""
    source = pathlib.Path(model.args["model_repository"]).parent / "identity" / "1" / "model.py"
    files = {f"file:{path}": source.read_bytes()}
    pb_utils.load_model("sent", **{"config": _IDENTITY, **given}, files=files)
    try:
        return [pb_utils.is_model_ready("sent"), _seen(_ask("sent").exec())]
    finally:
        pb_utils.unload_model("sent", unload_dependents=True)


_PROBES: dict[str, Callable[[TritonPythonModel], Any]] = {
    "early": lambda model: model.early,
    "exec": lambda _: _seen(_ask("identity").exec()),
    "bytes-name": lambda _: _seen(_ask(np.array([b"identity"], np.object_)[0]).exec()),
    "words": lambda _: _seen(_ask("words_one", np.array(["é"], np.object_)).exec()),
    "no-outputs": lambda _: _seen(_ask("identity", requested_output_names=[]).exec()),
    "again": lambda _: [_seen(asked.exec()) for asked in [_ask("identity")] for _ in range(2)],
    "version": lambda _: _seen(_ask("identity", model_version=1).exec()),
    "seen": lambda _: _described(
        request_id="r1",
        correlation_id=5,
        flags=3,
        timeout=77,
        parameters={"a": 1, "b": "x", "c": True},
    ),
    "seen-plain": lambda _: _described(),
    "seen-text": lambda _: _described(correlation_id="five"),
    "memory": lambda _: _seen(
        _ask(
            "identity",
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
        ).exec()
    ),
    "trace": lambda _: _seen(_ask("identity", trace=_ask("identity").trace()).exec()),
    "async": lambda _: _many("identity"),
    "threads": lambda _: _in_threads(),
    "unknown-model": lambda _: _seen(_ask("absent").exec()),
    "unknown-version": lambda _: _seen(_ask("identity", model_version=9).exec()),
    "unknown-input": lambda _: _seen(
        _ask("identity", inputs=[pb_utils.Tensor("WHAT", _FOUR)]).exec()
    ),
    "unknown-output": lambda _: _seen(_ask("identity", requested_output_names=["WHAT"]).exec()),
    "wrong-shape": lambda _: _seen(_ask("identity", np.zeros(3, np.float32)).exec()),
    "wrong-type": lambda _: _seen(_ask("identity", np.zeros(4, np.int32)).exec()),
    "fails": lambda _: _seen(
        _ask(
            "misbehave",
            inputs=[pb_utils.Tensor("MODE", np.array([b"code:NOT_FOUND"], np.object_))],
            requested_output_names=[],
        ).exec()
    ),
    "raises": lambda _: _seen(
        _ask(
            "misbehave",
            inputs=[pb_utils.Tensor("MODE", np.array([b"raise"], np.object_))],
            requested_output_names=[],
        ).exec()
    )["code"],
    "async-unknown-model": lambda _: _many("absent"),
    "iterate": lambda _: _iterated("2 3 end"),
    "iterate-flagged": lambda _: _iterated("2 3+end"),
    "iterate-nothing": lambda _: _iterated("end"),
    "iterate-error": lambda _: _iterated("1 error end"),
    "iterate-ordinary": lambda _: [_seen(each) for each in _ask("identity").exec(decoupled=True)],
    "iterate-unknown": lambda _: [_seen(each) for each in _ask("absent").exec(decoupled=True)],
    "await-iterators": lambda _: _awaited("1 2 end"),
    "not-decoupled": lambda _: _seen(_streamed("1 end").exec()),
    "cancel": lambda _: _cancelled(),
    "empty-input": lambda _: _ask("identity", inputs=[None]),
    "empty-output": lambda _: _ask("identity", requested_output_names=[""]),
    "missing-inputs": lambda _: pb_utils.InferenceRequest(model_name="identity"),
    "bad-correlation": lambda _: _ask("identity", correlation_id=1.5),
    "bad-parameters": lambda _: _ask("identity", parameters={"a": 1.5}),
    "bad-parameter-name": lambda _: _ask("identity", parameters={1: 1}),
    "parameters": lambda _: _ask("identity", parameters={"a": 1, "b": "é"}).parameters(),
    "counter": _counter,
    "gauge": _gauge,
    "histogram": _histogram,
    "negative": lambda model: _metric(model, "counter", "increment", -1),
    "set-counter": lambda model: _metric(model, "counter", "set", 1),
    "observe-counter": lambda model: _metric(model, "counter", "observe", 1),
    "observe-gauge": lambda model: _metric(model, "gauge", "observe", 1),
    "increment-histogram": lambda model: _metric(model, "histogram", "increment", 1),
    "set-histogram": lambda model: _metric(model, "histogram", "set", 1),
    "value-histogram": lambda model: _metric(model, "histogram", "value"),
    "other-kind": _other_kind,
    "deleted": lambda _: _deleted(),
    "no-labels": _family,
    "labels-list": lambda model: _family(model, labels=["a"]),
    "labels-numbers": lambda model: _family(model, labels={"a": 1}),
    "buckets-counter": lambda model: _family(model, labels={}, buckets=[1.0]),
    "buckets-none": lambda model: _family(model, labels={}, kind="HISTOGRAM"),
    "buckets-tuple": lambda model: _family(model, labels={}, kind="HISTOGRAM", buckets=(1.0,)),
    "buckets-falling": lambda model: _family(
        model, labels={}, kind="HISTOGRAM", buckets=[2.0, 1.0]
    ),
    "buckets-empty": lambda model: _family(model, labels={}, kind="HISTOGRAM", buckets=[]),
    "control": lambda _: _controlled(),
    "load-unknown": lambda _: pb_utils.load_model("absent"),
    "load-broken": lambda _: pb_utils.load_model("raising"),
    "unload-unknown": lambda _: pb_utils.unload_model("absent"),
    "ready-unknown": lambda _: pb_utils.is_model_ready("absent"),
    "ready-version": lambda _: pb_utils.is_model_ready("identity", "x"),
    "ready-negative": lambda _: pb_utils.is_model_ready("identity", "-2"),
    "load-sent": _load_sent,
    "load-sent-slash": lambda model: _load_sent(model, "/1/model.py"),
    "load-sent-outside": lambda model: _load_sent(model, "../model.py"),
    "load-sent-no-config": lambda model: _load_sent(model, config=""),
    "load-sent-wrong-config": lambda model: _load_sent(model, config='{"colour": "red"}'),
    "load-files": lambda _: pb_utils.load_model("batched", files=["x"]),
}
