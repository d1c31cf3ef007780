"""Batches through a python model in a thread: tensors in and out, errors, parameters (section 15)."""

import pathlib

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.core.datatypes import DataType
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from tests.server.backends.configs import inference, run, spec, tensor, values, with_sequences
from tests.server.backends.graphs import ACCUMULATE
from tests.server.backends.python.models import (
    IDENTITY,
    ask,
    instance_of,
    load,
    make_instance,
    python_config,
    write,
)


def returning(expression: str) -> str:
    """A model whose execute returns an expression of `requests`."""
    return f"""
        import numpy as np
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def execute(self, requests):
                return {expression}
    """


RESPONSE = 'pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros((1, 2), np.float32))])'


def test_a_model_gets_controls_and_states_and_gives_its_states(tmp_path: pathlib.Path) -> None:
    """A state is an output of the model, though not one of the config."""
    config = with_sequences(python_config(inputs=[spec("INPUT", datatypes.FP32, (1,))]), ACCUMULATE)
    model = """
        import triton_python_backend_utils as pb_utils

        def value(request, name):
            return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

        class TritonPythonModel:
            def execute(self, requests):
                return [
                    pb_utils.InferenceResponse([
                        pb_utils.Tensor("OUT", value(request, "START")),
                        pb_utils.Tensor("STATE_OUT", value(request, "INPUT") + value(request, "STATE_IN")),
                        pb_utils.Tensor("NEITHER", value(request, "INPUT")),
                    ])
                    for request in requests
                ]
    """
    instance = instance_of(tmp_path, model, config)
    request = inference(
        tensor("INPUT", [[2]], datatypes.FP32),
        tensor("START", [[1]], datatypes.INT32),
        tensor("STATE_IN", [[3]], datatypes.FP32),
    )
    assert values(run(instance, request)[0]) == {"OUT": [[1]], "STATE_OUT": [[5.0]]}


def test_each_request_gets_its_own_answer_in_order(tmp_path: pathlib.Path) -> None:
    instance = instance_of(tmp_path, IDENTITY)
    answers = run(instance, ask([1, 2], request_id="a"), ask([3, 4], request_id="b"))
    assert [(answer.id, values(answer)) for answer in answers] == [
        ("a", {"OUT": [[1, 2]]}),
        ("b", {"OUT": [[3, 4]]}),
    ]
    assert (answers[0].model_name, answers[0].model_version, answers[0].final) == ("m", 1, True)


@pytest.mark.parametrize(
    "datatype",
    [datatype for datatype in datatypes.ALL if datatype is not datatypes.BF16],
    ids=lambda each: each.name,
)
def test_every_datatype_goes_through_a_model(tmp_path: pathlib.Path, datatype: DataType) -> None:
    config = python_config(
        inputs=[spec("IN", datatype, (2,))], outputs=[spec("OUT", datatype, (2,))]
    )
    instance = instance_of(tmp_path, IDENTITY, config)
    sample = [[b"", b"\xff\0"]] if datatype is datatypes.BYTES else [[0, 1]]
    (answer,) = run(instance, inference(tensor("IN", sample, datatype)))
    (out,) = answer.outputs
    assert (out.datatype, out.array.dtype, out.shape) == (datatype, datatype.dtype, (1, 2))
    assert out.array.tolist() == sample


def test_bf16_goes_through_a_model_by_dlpack(tmp_path: pathlib.Path) -> None:
    config = python_config(
        inputs=[spec("IN", datatypes.BF16, (2,))], outputs=[spec("OUT", datatypes.BF16, (2,))]
    )
    instance = instance_of(
        tmp_path,
        returning(
            '[pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", requests[0].inputs()[0].to_dlpack())])]'
        ),
        config,
    )
    (answer,) = run(instance, inference(tensor("IN", [[1.5, -2]], datatypes.BF16)))
    assert answer.outputs[0].datatype is datatypes.BF16
    assert answer.outputs[0].array.astype(np.float32).tolist() == [[1.5, -2]]


def test_a_model_may_write_into_its_inputs_though_the_clients_bytes_stay(
    tmp_path: pathlib.Path,
) -> None:
    instance = instance_of(
        tmp_path,
        """
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                array += 1
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])]
        """,
    )
    body = np.array([[1, 2]], np.float32).tobytes()
    view = np.frombuffer(body, np.float32).reshape(1, 2)
    (answer,) = run(instance, inference(Tensor("IN", datatypes.FP32, (1, 2), view)))
    assert values(answer) == {"OUT": [[2, 3]]}
    assert view.tolist() == [[1, 2]]


def test_a_buffer_that_a_model_uses_again_does_not_change_an_answer_given(
    tmp_path: pathlib.Path,
) -> None:
    instance = instance_of(
        tmp_path,
        """
        import numpy as np
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def initialize(self, args):
                self.whole = np.zeros((1, 2), np.float32)
                self.larger = np.zeros((4, 2), np.float32)

            def execute(self, requests):
                self.whole += 1
                self.larger += 1
                return [
                    pb_utils.InferenceResponse([
                        pb_utils.Tensor("OUT", self.whole), pb_utils.Tensor("PART", self.larger[:1]),
                    ])
                ]
        """,
        python_config(
            outputs=[spec("OUT", datatypes.FP32, (2,)), spec("PART", datatypes.FP32, (2,))]
        ),
    )
    (first,) = run(instance, ask())
    run(instance, ask())
    assert values(first) == {"OUT": [[1, 1]], "PART": [[1, 1]]}


@pytest.mark.parametrize(
    "made", ["np.ones((1, 2), np.float32)", "requests[0].inputs()[0].as_numpy()"]
)
def test_an_array_that_only_the_answer_holds_is_not_copied(
    tmp_path: pathlib.Path, made: str
) -> None:
    """The model notes where its array lies; the answer's lies there too."""
    instance = instance_of(
        tmp_path,
        f"""
        import numpy as np
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def execute(self, requests):
                array = {made}
                self.address = array.ctypes.data
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])]
        """,
    )
    view = np.frombuffer(bytes(8), np.float32).reshape(1, 2)
    (answer,) = run(instance, inference(Tensor("IN", datatypes.FP32, (1, 2), view)))
    assert answer.outputs[0].array.ctypes.data == instance.model.address


def test_what_the_client_did_not_ask_for_is_left_out(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    instance = instance_of(
        tmp_path,
        """
        import numpy as np
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def execute(self, requests):
                array = np.zeros((1, 2), np.float32)
                names = ("EXTRA", "SECOND", "OUT")
                return [
                    pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name in names])
                    for _ in requests
                ]
        """,
        python_config(
            outputs=[spec("OUT", datatypes.FP32, (2,)), spec("SECOND", datatypes.FP32, (2,))]
        ),
    )
    everything, one = run(instance, ask(), ask(outputs=["OUT"]))
    assert list(values(everything)) == ["SECOND", "OUT"]
    assert list(values(one)) == ["OUT"]
    (record,) = caplog.records
    assert record.name == "naiad.models.m"
    assert "'EXTRA' that its config does not list (it lists OUT, SECOND)" in record.getMessage()


def test_text_and_numbers_in_a_bytes_output_are_sent_as_their_text(tmp_path: pathlib.Path) -> None:
    instance = instance_of(
        tmp_path,
        returning(
            '[pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([["é", 5, b"x"]], object))])]'
        ),
        python_config(outputs=[spec("OUT", datatypes.BYTES, (3,))]),
    )
    assert values(run(instance, ask())[0]) == {"OUT": [["é".encode(), b"5", b"x"]]}


def test_reshape_is_undone_on_the_way_out(tmp_path: pathlib.Path) -> None:
    instance = instance_of(
        tmp_path,
        returning('[pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros((1, 4)))])]'),
        python_config(outputs=[spec("OUT", datatypes.FP64, (2, 2), reshape=(4,))]),
    )
    assert run(instance, ask())[0].outputs[0].shape == (1, 2, 2)


def test_one_request_may_fail_with_a_code_and_the_others_are_unharmed(
    tmp_path: pathlib.Path,
) -> None:
    instance = instance_of(
        tmp_path,
        returning(
            f'[{RESPONSE}, pb_utils.InferenceResponse([], pb_utils.TritonError("no such word", '
            f'pb_utils.TritonError.NOT_FOUND)), pb_utils.InferenceResponse(error=pb_utils.TritonError("x"))]'
        ),
    )
    good, bad, plain = run(instance, ask(), ask(request_id="7"), ask())
    assert values(good) == {"OUT": [[0, 0]]}
    assert bad.error is not None
    assert (bad.id, bad.error.code, bad.error.message) == ("7", ErrorCode.NOT_FOUND, "no such word")
    assert bad.error.reason is FailureReason.BACKEND
    assert plain.error is not None
    assert plain.error.code is ErrorCode.INTERNAL


def test_parameters_of_a_response_reach_the_client(tmp_path: pathlib.Path) -> None:
    instance = instance_of(
        tmp_path,
        returning('[pb_utils.InferenceResponse([], parameters={"n": 1, "ok": True, "s": "t"})]'),
    )
    assert run(instance, ask())[0].parameters == {"n": 1, "ok": True, "s": "t"}


@pytest.mark.parametrize(
    ("expression", "fragment"),
    [
        ("[]", "Number of InferenceResponse objects do not match the number of InferenceRequest objects"),
        (f"({RESPONSE},)", "Expected a list in the execute return, found type '<class 'tuple'>'"),
        ("None", "Expected a list in the execute return, found type '<class 'NoneType'>'"),
        ("[None]", "Expected an 'InferenceResponse' object in the execute function return list, found type"),
        ("[5]", "found type '<class 'int'>'"),
        ("requests[0].exec()", "exec() and async_exec() send requests that the model made"),
        ("[requests[0].get_response_sender()]", "Expected an 'InferenceResponse' object in the execute function"),
        ("requests[0].set_release_flags(9)", "Unsupported request release flag 9"),
        ("pb_utils.load_model('x')", "there is no server to ask here (load_model)"),
        ("pb_utils.MetricFamily('f', 'd', pb_utils.MetricFamily.COUNTER)", "there is no server to ask here (open_family)"),
    ],
)  # fmt: skip
def test_a_wrong_return_fails_the_whole_batch_as_triton_words_it(
    tmp_path: pathlib.Path, expression: str, fragment: str
) -> None:
    instance = instance_of(tmp_path, returning(expression))
    with pytest.raises(InferenceError) as caught:
        run(instance, ask())
    start = "Failed to process the request(s) for model 'm_0_0', message: "
    assert caught.value.message.startswith(start)
    assert fragment in caught.value.message
    assert (caught.value.code, caught.value.reason) == (ErrorCode.INTERNAL, FailureReason.BACKEND)


def test_an_exception_shows_the_models_own_lines_first(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    instance = instance_of(
        tmp_path,
        {
            "1/helper.py": "import json\ndef read(text):\n    return json.loads(text)\n",
            "1/model.py": """
                import helper

                class TritonPythonModel:
                    def execute(self, requests):
                        return helper.read("{")
            """,
        },
    )
    with pytest.raises(InferenceError) as caught:
        run(instance, ask())
    first, _, rest = caught.value.message.partition("\n\nAt:\n")
    assert first == (
        "Failed to process the request(s) for model 'm_0_0', message: JSONDecodeError: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )
    places = rest.splitlines()
    assert places[0] == f"  {tmp_path / '1' / 'helper.py'}(3): read"
    assert places[1] == f"  {tmp_path / '1' / 'model.py'}(6): execute"
    assert all("json" in place for place in places[2:])
    assert [record.getMessage() for record in caplog.records] == [caught.value.message]


def test_a_model_that_exits_does_not_take_the_thread_with_it(tmp_path: pathlib.Path) -> None:
    instance = instance_of(tmp_path, returning("exit(3)"))
    with pytest.raises(InferenceError, match="SystemExit: 3"):
        run(instance, ask())


def test_a_batch_above_the_limit_is_refused(tmp_path: pathlib.Path) -> None:
    instance = instance_of(tmp_path, IDENTITY, python_config(max_batch_size=1))
    with pytest.raises(InferenceError, match="batch size 2 for 'm_0_0', max allowed is 1"):
        run(instance, ask(), ask())


def test_the_moments_of_a_run_come_from_the_clock(tmp_path: pathlib.Path) -> None:
    model = load(write(tmp_path, IDENTITY), clock=ManualClock(now_ns=9))
    execution = make_instance(model).execute([ask()])
    assert (execution.input_end_ns, execution.output_start_ns) == (9, 9)
