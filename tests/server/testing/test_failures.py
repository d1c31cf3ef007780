"""naiad.testing: what a failed test shows, and errors for what is not available there."""

import collections.abc
import pathlib
import types

import pytest

from naiad.testing import ErrorCode, InferenceError, load_model
from tests.server.testing.written import CONFIG, DOUBLE, Load, written


def visible(trace: types.TracebackType | None) -> collections.abc.Iterator[str]:
    """The files of the frames that pytest shows: those without `__tracebackhide__`."""
    while trace is not None:
        frame = trace.tb_frame
        if not (frame.f_locals | frame.f_globals).get("__tracebackhide__"):
            yield frame.f_code.co_filename
        trace = trace.tb_next


def test_a_refused_request_shows_the_line_of_the_test_and_nothing_of_ours(load: Load) -> None:
    model = load()
    with pytest.raises(InferenceError, match="unexpected inference input 'Z'") as caught:
        model.infer({"Z": [[1]]})
    assert list(visible(caught.value.__traceback__)) == [__file__]


def test_an_exception_in_a_model_shows_the_models_lines_before_those_of_the_test(
    load: Load,
) -> None:
    model = load("class TritonPythonModel:\n    def execute(self, requests):\n        1 / 0\n")
    with pytest.raises(InferenceError) as caught:
        model.infer({"X": [[1]]})
    assert list(visible(caught.value.__traceback__)) == [__file__]
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    (file,) = visible(cause.__traceback__)
    assert file.endswith("model.py")


def test_a_missing_response_shows_the_line_of_the_test(load: Load) -> None:
    model = load(
        "class TritonPythonModel:\n    def execute(self, requests):\n"
        "        self.senders = [request.get_response_sender() for request in requests]\n",
        CONFIG + "model_transaction_policy { decoupled: true }\n",
        timeout_s=0.01,
    )
    with pytest.raises(TimeoutError) as caught:
        model.stream({"X": [[1]]})
    assert list(visible(caught.value.__traceback__)) == [__file__]


@pytest.mark.parametrize("config", ["", 'platform: "onnxruntime_onnx"\n', None])
def test_the_error_of_a_model_of_another_backend_says_that_only_python_models_run(
    tmp_path: pathlib.Path, config: str | None
) -> None:
    folder = tmp_path / "classifier"
    for version in ("1", "10"):
        (folder / version).mkdir(parents=True)
        (folder / version / "model.onnx").touch()
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    with pytest.raises(InferenceError) as caught:
        load_model(folder)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert caught.value.message.startswith(
        "model 'classifier' is for the backend 'onnxruntime', and load_model runs Python models (model.py) only: "
    )
    assert list(visible(caught.value.__traceback__)) == [__file__]


@pytest.mark.parametrize("place", [".", "1"])
def test_a_missing_package_of_a_requirements_file_is_reported_with_what_to_install(
    tmp_path: pathlib.Path, place: str
) -> None:
    folder = written(tmp_path, f"import no_such_package\n{DOUBLE}")
    requirements = folder / place / "requirements.txt"
    requirements.write_text("no_such_package\n")
    with pytest.raises(InferenceError) as caught:
        load_model(folder)
    *_, last = caught.value.message.splitlines()
    assert last == (
        f"{requirements} is not used in a test, which runs in its own environment: pip install -r {requirements}"
    )
    requirements.unlink()
    with pytest.raises(InferenceError, match="No module named 'no_such_package'") as caught:
        load_model(folder)
    assert "requirements" not in caught.value.message
