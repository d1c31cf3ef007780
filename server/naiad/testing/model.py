"""A model.py in the process of its tests: loaded by its config, called, ended (docs/testing-models.md)."""

import collections.abc
import contextvars
import pathlib
import queue
import types
from typing import Any, ParamSpec, Self, TypeVar

import msgspec
from google.protobuf import json_format

from naiad.backends.backend import ModelSource, instance_specs
from naiad.backends.catalog import Catalog
from naiad.backends.python.backend import PythonBackend
from naiad.backends.python.instance import PythonInstance
from naiad.backends.python.plugin import PLUGIN
from naiad.config.document import Document
from naiad.config.pbtxt import parser as pbtxt
from naiad.config.report import render
from naiad.config.resolving.normalise import autofill
from naiad.config.resolving.resolve import CONFIG_FILE, resolve
from naiad.config.sequence_tensors import model_inputs
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.messages import model_config_pb2
from naiad.core.request import ParameterValue
from naiad.core.response import InferResponse
from naiad.core.values import Values
from naiad.engine.validation import RequestValidator
from naiad.environments.spec import PACKED_PARAMETER, REQUIREMENTS_FILE, REQUIREMENTS_OPTION
from naiad.errors import InferenceError, invalid
from naiad.hosts.host import DeferredResponse
from naiad.hosts.local_instance import LocalInstance
from naiad.testing.fakes import NO_MODELS, Fake, FakeServer
from naiad.testing.tracebacks import shows_only_the_test
from naiad.testing.values import Request, Response, from_response, to_request

__tracebackhide__ = True  # for pytest: a failed test shows the test, not this file

_NO_PARAMETERS: collections.abc.Mapping[str, Any] = types.MappingProxyType({})

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

TIMEOUT_S = 10.0
"""Seconds that a test waits for deferred responses."""

_OPTIONS = types.MappingProxyType({"python": {REQUIREMENTS_OPTION: "ignore"}})
"""A test runs in its own environment."""


class ModelUnderTest:
    """A loaded model; use it in a `with`, or call `close`. Made by `load_model`.

    Args:
        timeout_s: how long to wait for responses that it sends apart from `execute`.

    Attributes:
        python_model: the TritonPythonModel itself.
        config: its config as JSON has it, completed as a server would, as `initialize` got it.
    """

    def __init__(
        self,
        instance: PythonInstance,
        source: ModelSource,
        server: FakeServer,
        *,
        timeout_s: float,
        close: collections.abc.Callable[[], None],
    ) -> None:
        self._instance: PythonInstance | None = instance
        self._source = source
        self._server = server
        self._timeout_s = timeout_s
        self._close = close
        # A test gives what a sequence batcher would add, controls and states.
        self._inputs = model_inputs(source.config)
        self._validator = RequestValidator(
            msgspec.structs.replace(source.config, inputs=self._inputs)
        )
        self._answers: queue.SimpleQueue[DeferredResponse] = queue.SimpleQueue()
        self.python_model: Any = instance.model
        self.config: dict[str, Any] = json_format.MessageToDict(
            source.config.message, preserving_proto_field_name=True
        )
        self._local = LocalInstance(instance, source.config, source.version)
        self._local.respond_through(self._answers.put)

    def infer(
        self,
        inputs: collections.abc.Mapping[str, Values],
        parameters: collections.abc.Mapping[str, ParameterValue] = _NO_PARAMETERS,
        **more: Any,
    ) -> Response:
        """Send a request that has one response.

        Args:
            inputs: as in `Request`.
            parameters: as in `Request`.
            more: the other fields of `Request`.

        Raises:
            InferenceError: what the client would get: the request does not fit the config, or the model failed it.
            AssertionError: there was not exactly one response; `stream` gives all.
            TimeoutError: the model did not answer.
        """
        responses = self.stream(inputs, parameters, **more)
        assert len(responses) == 1, (
            f"model '{self._source.config.name}' sent {len(responses)} responses: take stream(…), which gives all"
        )
        if responses[0].error is not None:
            raise responses[0].error
        return responses[0]

    def stream(
        self,
        inputs: collections.abc.Mapping[str, Values],
        parameters: collections.abc.Mapping[str, ParameterValue] = _NO_PARAMETERS,
        **more: Any,
    ) -> list[Response]:
        """Send a request, as `infer` takes it, that has any number of responses: returns all of them, a failed one with its `error`.

        Raises:
            InferenceError: the request does not fit the config, or the whole batch failed.
            TimeoutError: the last response did not come.
        """
        return self.execute([Request(inputs, parameters, **more)])[0]

    @shows_only_the_test
    def execute(self, requests: collections.abc.Sequence[Request]) -> list[list[Response]]:
        """Call `execute` once with a batch.

        Returns:
            The responses to each request, in the order in which they came; an ordinary model gives one to each.

        Raises:
            InferenceError: a request does not fit the config, or the whole batch failed (row 15.7).
            TimeoutError: a last response did not come.
        """
        instance = self._instance
        if instance is None:
            raise invalid(f"model '{self._source.config.name}' is closed")
        batch = [self._inference(request) for request in requests]
        responses: list[list[InferResponse]] = [[] for _ in batch]
        waited_for = {id(inference): place for place, inference in enumerate(batch)}
        for place, response in enumerate(_in_own_context(self._local.execute, batch).responses):
            if response is not None:
                responses[place].append(response)
                del waited_for[id(batch[place])]
        while waited_for:
            answer = self._next_answer(len(waited_for))
            place = waited_for.get(id(answer.inference), -1)
            if place < 0:
                continue  # of a request that a test before this one gave up
            if not answer.response.empty:
                responses[place].append(answer.response)
            if answer.response.final:
                del waited_for[id(answer.inference)]
        return [list(map(from_response, answers)) for answers in responses]

    @property
    def calls(self) -> list[tuple[str, Request]]:
        """The calls of other models so far: their names and the requests."""
        return list(self._server.asked)

    def metrics(self) -> dict[str, float]:
        """The metrics of its own, by name as the metrics page writes it: `name{label="value"}`."""
        return self._server.metrics()

    @shows_only_the_test
    def ready(self) -> bool:
        """The result of its `is_ready` (row 2.12)."""
        return self._instance is not None and _in_own_context(self._instance.ready)

    @shows_only_the_test
    def close(self) -> None:
        """Call its `finalize`. Idempotent.

        Raises:
            Exception: what `finalize` raises; a server would only log it (row 15.33).
        """
        instance, self._instance = self._instance, None
        if instance is None:
            return
        try:
            _in_own_context(instance.finalize)
        finally:
            instance.close()
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def _inference(self, request: Request) -> Inference:
        config = self._source.config
        given = to_request(request, model=config.name, specs=self._inputs)
        rows = self._validator.validate(given)
        if self._validator.has_reshape:
            given = self._validator.reshaped(given)
        return Inference(
            given, _ignore, batch_size=rows, received_ns=0, cancelled=request.cancelled
        )

    def _next_answer(self, waiting: int) -> DeferredResponse:
        try:
            return self._answers.get(timeout=self._timeout_s)
        except queue.Empty:
            raise TimeoutError(
                f"model '{self._source.config.name}': {waiting} requests have not got their last response within {self._timeout_s:g} s: a "
                "response sender has to send pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL at the end"
            ) from None


@shows_only_the_test
def load_model(
    folder: str | pathlib.Path,
    *,
    config: str | collections.abc.Mapping[str, Any] | None = None,
    version: int | None = None,
    parameters: collections.abc.Mapping[str, str] = _NO_PARAMETERS,
    models: collections.abc.Mapping[str, Fake] = NO_MODELS,
    timeout_s: float = TIMEOUT_S,
) -> ModelUnderTest:
    """Load a model as a server would, completed config and `initialize` included.

    Args:
        folder: the model's folder in a repository: config.pbtxt and a folder for each version.
        config: in place of its config.pbtxt: the text of one, or a dict as in `initialize`'s `model_config`.
        version: which one; by default the newest that the config serves.
        parameters: of the config, added or in place of those there.
        models: what other models answer when this one asks them, by name.
        timeout_s: how long to wait for responses that it sends apart from `execute`.

    Raises:
        InferenceError: the config is wrong (every problem, with its line), or the model does not load.
    """
    server = FakeServer(models)
    backend = PythonBackend(clock=SystemClock(), server=server)
    model_dir = pathlib.Path(folder).absolute()
    if not model_dir.is_dir():
        raise invalid(
            f"{model_dir} is not a folder: load_model takes a model's folder of a repository"
        )
    document = _document(model_dir, config)
    for name, value in parameters.items():
        document.message.parameters[name].string_value = value
    _require_python(model_dir, document)
    try:
        return _loaded(
            model_dir, document, version, server=server, backend=backend, timeout_s=timeout_s
        )
    except InferenceError as error:
        raise _with_environment(error, model_dir) from error.__cause__


def _loaded(
    model_dir: pathlib.Path,
    document: Document,
    version: int | None,
    *,
    server: FakeServer,
    backend: PythonBackend,
    timeout_s: float,
) -> ModelUnderTest:
    # The model runs in the environment of its test.
    document.message.parameters.pop(PACKED_PARAMETER, None)
    resolution = _in_own_context(
        resolve,
        model_dir,
        document=document,
        complete={backend.name: backend.complete}.get,
        backend_options=_OPTIONS,
        backends=Catalog(),
    )
    if resolution.config is None:
        raise invalid(render(resolution.problems, colour=False))
    if version is not None and version not in resolution.versions:
        served = ", ".join(map(str, resolution.versions))
        raise invalid(f"model '{model_dir.name}' serves no version {version}, but {served}")
    number = resolution.versions[-1] if version is None else version
    source = ModelSource(
        config=resolution.config,
        version=number,
        model_dir=model_dir,
        options=_OPTIONS["python"],
    )
    loaded = _in_own_context(backend.load, source)
    try:
        instance = _in_own_context(loaded.make_instance, instance_specs(source.config)[0])
    except InferenceError:
        loaded.close()
        raise
    return ModelUnderTest(instance, source, server, timeout_s=timeout_s, close=loaded.close)


def _require_python(model_dir: pathlib.Path, document: Document) -> None:
    """Refuse the model of another backend: its config would only be reported as wrong.

    Raises:
        InferenceError: it is one.
    """
    message = model_config_pb2.ModelConfig()
    message.CopyFrom(document.message)
    message.name = model_dir.name
    versions = [entry for entry in model_dir.iterdir() if entry.name.isdecimal()]
    newest = max(versions, key=lambda entry: int(entry.name), default=None)
    listing = newest.iterdir() if newest is not None and newest.is_dir() else ()
    autofill(message, {entry.name: entry.is_dir() for entry in listing}, Catalog())
    if message.backend not in {"", PLUGIN.name} and not document.problems:
        raise invalid(
            f"model '{model_dir.name}' is for the backend '{message.backend}', and load_model runs Python models (model.py) only: "
            "start a server with `naiad serve` to test this one, or let a Python model call it and give load_model a fake of it (models=…)"
        )


def _with_environment(error: InferenceError, model_dir: pathlib.Path) -> InferenceError:
    """The error of a model that misses a package, with how to install its requirements.txt for the test."""
    if "No module named" not in error.message:
        return error
    files = [*model_dir.glob(f"*/{REQUIREMENTS_FILE}"), *model_dir.glob(REQUIREMENTS_FILE)]
    if not files:
        return error
    return InferenceError(
        error.code,
        f"{error.message}\n{files[0]} is not used in a test, which runs in its own environment: pip install -r {files[0]}",
    )


def _document(
    model_dir: pathlib.Path, config: str | collections.abc.Mapping[str, Any] | None
) -> Document:
    path = model_dir / CONFIG_FILE
    if config is None:
        return pbtxt.read(path)
    if isinstance(config, str):
        return pbtxt.parse(config, path=path)
    message = model_config_pb2.ModelConfig()
    try:
        json_format.ParseDict(dict(config), message)
    except json_format.ParseError as error:
        raise invalid(
            f"the config given for model '{model_dir.name}' is invalid: {error}"
        ) from error
    empty = pbtxt.parse("", path=path)
    return msgspec.structs.replace(empty, message=message)


def _in_own_context(
    call: collections.abc.Callable[Arguments, Result],
    *arguments: Arguments.args,
    **named: Arguments.kwargs,
) -> Result:
    """Run the model's code in a copy of the context: the code sets context variables, and the test's own context stays unchanged."""
    return contextvars.copy_context().run(call, *arguments, **named)


def _ignore(response: InferResponse) -> None:
    """Responses are collected by the caller."""
