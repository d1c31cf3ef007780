"""naiad.testing: a model.py asked without a server."""

import pathlib
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from naiad.testing import ErrorCode, InferenceError, Request, load_model
from tests.server.testing.written import CONFIG, DOUBLE, IMPORTS, Load, written


def test_it_answers_with_arrays_and_parameters(load: Load) -> None:
    response = load().infer({"X": [[1, 2]]})
    assert response["Y"].tolist() == [[2.0, 4.0]]
    assert response["Y"].dtype == np.float32
    assert response.parameters == {"rows": 1}


def test_a_batch_is_one_call_with_all_its_requests(load: Load) -> None:
    model = load()
    answers = model.execute([Request({"X": [[1]]}), Request({"X": [[-1]]}), Request({"X": [[3]]})])
    assert len(model.python_model.seen) == 3
    ((first,), (second,), (third,)) = answers
    assert (first["Y"].tolist(), third["Y"].tolist()) == ([[2]], [[6]])
    assert second.error is not None
    with pytest.raises(InferenceError, match="no negative"):
        second["Y"]


def test_an_error_of_the_model_is_raised_with_its_code(load: Load) -> None:
    with pytest.raises(InferenceError, match="no negative") as caught:
        load().infer({"X": [[-1]]})
    assert caught.value.code is ErrorCode.INVALID_ARG


def test_an_exception_in_execute_shows_its_line(load: Load) -> None:
    model = load("class TritonPythonModel:\n    def execute(self, requests):\n        1 / 0\n")
    with pytest.raises(InferenceError, match=r"ZeroDivisionError(?s:.*)model\.py\(5\): execute"):
        model.infer({"X": [[1]]})


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ({"X": np.array([[1]], np.int64)}, "data-type is 'INT64', but model 'm' expects 'FP32'"),
        ({"Z": [[1]]}, "unexpected inference input 'Z'"),
        ({"X": [1, 2, 3, 4, 5]}, "X"),
        ({}, "expected 1 inputs but got 0"),
        ({"X": [["a"]]}, "the values of 'X' cannot become a tensor of FP32"),
        ({"X": [[1], [2, 3]]}, "the values of 'X' cannot become a tensor"),
        ({"X": np.array([[1]], np.complex64)}, "complex64, for which there is no datatype"),
        ({"X": np.array([[None]])}, "the elements of BYTES are bytes or str"),
        ({"X": [["\ud800"]]}, "the values of 'X' cannot become a tensor"),
        ({"X": np.array([["\ud800"]])}, "half of a surrogate pair"),
    ],
)
def test_a_request_that_a_server_would_refuse_is_refused(
    inputs: dict[str, Any], error: str, load: Load
) -> None:
    with pytest.raises(InferenceError, match=error):
        load().infer(inputs)


def test_what_a_request_carries_reaches_the_model(load: Load) -> None:
    model = load()
    model.infer(
        {"X": [[1]]},
        {"how": "well", "n": 2},
        id="a",
        correlation_id=7,
        flags=1,
        timeout_us=5,
        requested_outputs=["Y"],
        cancelled=True,
    )
    (request,) = model.python_model.seen
    assert request.parameters() == '{"how":"well","n":2}'
    assert (request.request_id(), request.correlation_id(), request.flags()) == ("a", 7, 1)
    assert (request.timeout(), request.requested_output_names()) == (5, {"Y"})
    assert request.is_cancelled()


TEXT = """
class TritonPythonModel:
    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", text)]) for text in texts]
"""


@pytest.mark.parametrize(
    "values", [["a", "ü"], [b"a", "ü".encode()], np.array(["a", "ü"]), np.array(["a", "ü"], object)]
)
def test_text_is_bytes_for_a_model(values: Any, load: Load) -> None:
    model = load(TEXT, CONFIG.replace("FP32", "STRING").replace("max_batch_size: 4", ""))
    assert model.infer({"X": values})["Y"].tolist() == [b"a", "ü".encode()]


def test_bf16_is_written_as_floats(load: Load) -> None:
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            tensors = [pb_utils.get_input_tensor_by_name(r, "X") for r in requests]
            return [
                pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", tensor)]) for tensor in tensors
            ]
    """
    found = load(code, CONFIG.replace("FP32", "BF16")).infer({"X": [[1.5, 2]]})["Y"]
    assert found.dtype == ml_dtypes.bfloat16
    assert found.tolist() == [[1.5, 2.0]]


def test_the_model_cannot_change_the_tests_arrays(load: Load) -> None:
    code = DOUBLE.replace("if (x < 0)", "x += 1\n        if (x < 0)")
    given = np.array([[1]], np.float32)
    assert load(code).infer({"X": given})["Y"].tolist() == [[4]]
    assert given.tolist() == [[1]]


COUNT = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            n = int(pb_utils.get_input_tensor_by_name(request, "X").as_numpy()[0, 0])
            for each in range(n):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([[each]], np.float32))]))
            if n < 9:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            else:
                self.kept = sender
"""
DECOUPLED = CONFIG + "model_transaction_policy { decoupled: true }"


SEQUENCE = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x, start, state = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name in ("X", "START", "S_IN")
        )
        total = np.where(start != 0, x, x + state)
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, total) for name in ("Y", "S_OUT")])
"""


def test_a_test_gives_the_controls_and_states_of_a_sequence_and_gets_its_states(load: Load) -> None:
    config = (
        CONFIG
        + """
sequence_batching {
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  state { input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_FP32 dims: 1 }
}
"""
    )
    model = load(SEQUENCE, config)
    first = model.infer({"X": [[1]], "START": [[1]], "S_IN": [[9]]})
    assert first["S_OUT"].tolist() == [[1]]
    second = model.infer({"X": [[2]], "START": [[0]], "S_IN": first["S_OUT"]})
    assert second["Y"].tolist() == [[3]]


def test_a_decoupled_model_gives_all_its_responses(load: Load) -> None:
    model = load(COUNT, DECOUPLED)
    assert [each["Y"].item() for each in model.stream({"X": [[3]]})] == [0, 1, 2]
    assert model.stream({"X": [[0]]}) == []
    assert model.infer({"X": [[1]]})["Y"].item() == 0
    with pytest.raises(AssertionError, match=r"sent 2 responses: take stream"):
        model.infer({"X": [[2]]})


def test_a_last_response_that_does_not_come_is_said(load: Load) -> None:
    model = load(COUNT, DECOUPLED, timeout_s=0.05)
    with pytest.raises(TimeoutError, match="1 requests have not got their last response"):
        model.stream({"X": [[9]]})
    assert [each["Y"].item() for each in model.stream({"X": [[1]]})] == [0]


def test_async_execute_is_run(load: Load) -> None:
    code = DOUBLE.replace("def execute", "async def execute")
    assert load(code).infer({"X": [[2]]})["Y"].tolist() == [[4]]


def test_the_config_may_be_a_dict_or_a_text_and_is_completed(tmp_path: pathlib.Path) -> None:
    code = DOUBLE + (
        "    @staticmethod\n    def auto_complete_config(config):\n"
        "        config.set_max_batch_size(2)\n        return config\n"
    )
    folder = written(tmp_path, code, config=None)
    tensors = {
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [-1]}],
    }
    text = CONFIG.replace("max_batch_size: 4", "")
    for config in (tensors, text):
        with load_model(folder, config=config) as model:
            assert model.config["max_batch_size"] == 2
            assert model.infer({"X": [[1]]})["Y"].tolist() == [[2]]


def test_parameters_of_the_config_can_be_given(load: Load) -> None:
    model = load(parameters={"mode": "fast"})
    assert model.config["parameters"] == {"mode": {"string_value": "fast"}}
    assert '"mode"' in model.python_model.args["model_config"]


def test_a_version_can_be_chosen(tmp_path: pathlib.Path) -> None:
    folder = written(tmp_path, DOUBLE, CONFIG + "version_policy { all {} }")
    (folder / "2").mkdir()
    (folder / "2" / "model.py").write_text(IMPORTS + DOUBLE.replace("x * 2", "x * 3"))
    with load_model(folder) as newest, load_model(folder, version=1) as first:
        assert newest.infer({"X": [[1]]})["Y"].item() == 3
        assert first.infer({"X": [[1]]})["Y"].item() == 2
    with pytest.raises(InferenceError, match="serves no version 3, but 1, 2"):
        load_model(folder, version=3)


def test_an_environment_of_its_own_does_not_keep_a_model_from_its_test(load: Load) -> None:
    text = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/nonesuch" } }'
    assert load(config=CONFIG + text).infer({"X": [[1]]})["Y"].item() == 2


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ("max_batchsize: 1", r"config\.pbtxt:1:1: error:(?s:.*)max_batch_size"),
        ({"max_batchsize": 1}, "the config given for model 'm' is invalid"),
        ({"backend": "onnxruntime"}, "onnxruntime"),
    ],
)
def test_a_wrong_config_is_shown_with_its_line(
    config: Any, error: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(InferenceError, match=error):
        load_model(written(tmp_path, DOUBLE), config=config)


def test_a_model_that_does_not_load_says_why(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        InferenceError, match=r"failed to initialize model 'm'(?s:.*)KeyError: 'no'"
    ):
        load_model(written(tmp_path, DOUBLE.replace("self.args = args", "args['no']")))
    with pytest.raises(InferenceError, match="is not a folder"):
        load_model(tmp_path / "m" / "1" / "model.py")


def test_what_finalize_raises_is_not_hidden(tmp_path: pathlib.Path) -> None:
    code = DOUBLE + "    def finalize(self):\n        raise ValueError('not closed')\n"
    model = load_model(written(tmp_path, code))
    with pytest.raises(ValueError, match="not closed"):
        model.close()
    model.close()
    assert not model.ready()
    with pytest.raises(InferenceError, match="is closed"):
        model.infer({"X": [[1]]})


def test_is_ready_has_its_say(load: Load) -> None:
    assert load(DOUBLE + "    def is_ready(self):\n        return hasattr(self, 'args')\n").ready()


async def test_a_coroutine_is_ready_also_in_a_test_that_is_one(load: Load) -> None:
    model = load(DOUBLE + "    async def is_ready(self):\n        return hasattr(self, 'args')\n")
    assert model.ready()


def test_a_model_runs_in_the_thread_of_its_test(load: Load) -> None:
    code = DOUBLE.replace(
        "self.seen = requests", "import threading; self.seen = threading.get_ident()"
    )
    model = load(code)
    model.infer({"X": [[1]]})
    assert model.python_model.seen == threading.get_ident()


def test_ctrl_c_ends_a_test_also_while_its_model_runs(load: Load) -> None:
    model = load(DOUBLE.replace("x * 2", "exec('raise KeyboardInterrupt')"))
    with pytest.raises(KeyboardInterrupt):
        model.infer({"X": [[1]]})
