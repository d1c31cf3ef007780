import json
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from naiad.backends.backend import Instance
from naiad.backends.python.backend import PythonBackend
from naiad.config.model_config import InstanceKind
from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.core.datatypes import DataType
from naiad.core.inference import Inference
from naiad.core.messages import model_config_pb2
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from tests.server.backends.configs import inference, spec, tensor, values
from tests.server.backends.python.models import (
    IDENTITY,
    instance_of,
    load,
    make_instance,
    python_config,
    write,
)


def ask(row: Sequence[Any] = (1, 2), **more: Any) -> Inference:
    return inference(tensor("IN", [row], datatypes.FP32), **more)


def run(instance: Instance, *batch: Inference) -> list[InferResponse]:
    return [each for each in instance.execute(batch).responses if each is not None]


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


def test_each_request_gets_its_own_answer_in_order(tmp_path: pathlib.Path) -> None:
    instance = instance_of(tmp_path, IDENTITY)
    answers = run(instance, ask([1, 2], request_id="a"), ask([3, 4], request_id="b"))
    assert [(each.id, values(each)) for each in answers] == [
        ("a", {"OUT": [[1, 2]]}),
        ("b", {"OUT": [[3, 4]]}),
    ]
    assert (answers[0].model_name, answers[0].model_version, answers[0].final) == ("m", 1, True)


@pytest.mark.parametrize(
    "datatype",
    [each for each in datatypes.ALL if each is not datatypes.BF16],
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
    assert answer.outputs[0].array.ctypes.data == vars(instance)["_model"].address


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


def test_initialize_learns_where_it_is(tmp_path: pathlib.Path) -> None:
    source = """
        import json
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def initialize(self, args):
                assert all(type(value) is str for value in args.values())
                self.args = args
                self.directory = pb_utils.get_model_dir()

            def execute(self, requests): ...
    """
    instance = instance_of(tmp_path, source)
    model = vars(instance)["_model"]
    args = dict(model.args)
    config = json.loads(args.pop("model_config"))
    assert args == {
        "model_instance_kind": "CPU",
        "model_instance_name": "m_0_0",
        "model_instance_device_id": "0",
        "model_repository": str(tmp_path),
        "model_version": "1",
        "model_name": "m",
    }
    assert config["input"][0]["dims"] == [2]
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert model.directory == str(tmp_path / "1")


def test_two_instances_are_two_objects(tmp_path: pathlib.Path) -> None:
    model = load(
        write(
            tmp_path,
            """
            import numpy as np
            import triton_python_backend_utils as pb_utils

            class TritonPythonModel:
                def initialize(self, args):
                    self.name = args["model_instance_name"]

                def execute(self, requests):
                    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([self.name], object))])]
            """,
        ),
        python_config(outputs=[spec("OUT", datatypes.BYTES, ())]),
    )
    names = [make_instance(model, name) for name in ("m_0_0", "m_0_1")]
    assert [values(run(each, ask())[0])["OUT"] for each in names] == [[b"m_0_0"], [b"m_0_1"]]


@pytest.mark.parametrize(
    ("files", "fragments"),
    [
        ({"1/other.py": ""}, ["Python model file not found in", "/1/model.py'"]),
        ({"1/model.py": "x = 1\n"}, ["does not define the class TritonPythonModel"]),
        ({"1/model.py": "class TritonPythonModel: ...\n"}, ["does not implement `execute` method"]),
        (
            {"1/model.py": "import nowhere_to_be_found\n"},
            [
                "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
                "/1/model.py(1): <module>",
            ],
        ),
        ({"1/model.py": "def f(:\n"}, ["SyntaxError", "/1/model.py(1): def f(:"]),
    ],
)
def test_a_model_that_cannot_be_loaded_says_why(
    tmp_path: pathlib.Path, files: dict[str, str], fragments: list[str]
) -> None:
    with pytest.raises(InferenceError) as caught:
        load(write(tmp_path, files))
    assert caught.value.message.startswith("unable to load model 'm'")
    for fragment in fragments:
        assert fragment in caught.value.message


def test_an_initialize_that_fails_gives_its_traceback(tmp_path: pathlib.Path) -> None:
    source = """
        class TritonPythonModel:
            def initialize(self, args):
                try:
                    {}["weights"]
                except KeyError as error:
                    raise ValueError("no weights") from error

            def execute(self, requests): ...
    """
    with pytest.raises(InferenceError) as caught:
        instance_of(tmp_path, source)
    path = tmp_path / "1" / "model.py"
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert caught.value.message == (
        "failed to initialize model 'm' (instance 'm_0_0'): ValueError: no weights\n\n"
        f"At:\n  {path}(7): initialize\n\n"
        f"Caused by: KeyError: 'weights'\n\nAt:\n  {path}(5): initialize"
    )


def test_another_file_may_be_the_model(tmp_path: pathlib.Path) -> None:
    write(tmp_path, {"1/my-model.py": IDENTITY})
    model = load(tmp_path, python_config(default_model_filename="my-model.py"))
    assert values(run(make_instance(model), ask())[0]) == {"OUT": [[1, 2]]}
    with pytest.raises(InferenceError, match=r"Model name must end with '\.py'"):
        load(
            write(tmp_path, {"1/model.txt": ""}), python_config(default_model_filename="model.txt")
        )


HOOKS = """
    class TritonPythonModel:
        def execute(self, requests): ...

        {hook}
"""


@pytest.mark.parametrize(
    ("hook", "ready"),
    [
        ("other = 1", True),
        ("def is_ready(self): return True", True),
        ("def is_ready(self): return False", False),
        ("async def is_ready(self): return True", True),
        ("def is_ready(self): return 1", False),
        ("def is_ready(self): raise RuntimeError", False),
    ],
)
def test_is_ready_has_its_say(tmp_path: pathlib.Path, hook: str, *, ready: bool) -> None:
    assert instance_of(tmp_path, HOOKS.format(hook=hook)).ready() is ready


def test_finalize_is_called_and_its_errors_are_only_logged(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    instance = instance_of(tmp_path, HOOKS.format(hook="def finalize(self): raise OSError('busy')"))
    instance.close()
    assert not instance.ready()
    (record,) = caplog.records
    assert "finalize failed: OSError: busy" in record.getMessage()


def test_the_log_of_a_model_has_its_name_and_its_line(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    instance_of(
        tmp_path,
        """
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def initialize(self, args):
                log = pb_utils.Logger
                log.log("plain")
                log.log("loud", log.ERROR)
                log.log_info("i")
                log.log_warn("w")
                log.log_error("e")
                log.log_verbose("100 % v")

            def execute(self, requests): ...
        """,
    )
    seen = [(each.levelname, each.getMessage(), each.lineno) for each in caplog.records]
    assert seen == [
        ("INFO", "plain", 7),
        ("ERROR", "loud", 8),
        ("INFO", "i", 9),
        ("WARNING", "w", 10),
        ("ERROR", "e", 11),
        ("DEBUG", "100 % v", 12),
    ]
    assert {each.name for each in caplog.records} == {"naiad.models.m"}


COMPLETE = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        @staticmethod
        def auto_complete_config(config):
            {body}

        def execute(self, requests): ...
"""


def complete(folder: pathlib.Path, body: str, **given: Any) -> Any:
    message = model_config_pb2.ModelConfig(name="m", backend="python", **given)
    write(folder, COMPLETE.format(body=body.replace("\n", "\n            ")))
    PythonBackend(clock=ManualClock()).complete(
        message, model_dir=folder, version_dir=folder / "1", options={}
    )
    return message


def test_a_model_completes_its_config(tmp_path: pathlib.Path) -> None:
    message = complete(
        tmp_path,
        """config.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": [-1, 4], "optional": True})
config.add_output({"name": "B", "data_type": "TYPE_STRING", "dims": [1]})
config.set_max_batch_size(4)
config.set_dynamic_batching()
config.set_model_transaction_policy({"decoupled": False})
return config""",
    )
    (a,), (b,) = message.input, message.output
    assert (a.name, list(a.dims), a.optional) == ("A", [-1, 4], True)
    assert (b.name, b.data_type) == ("B", model_config_pb2.TYPE_STRING)
    assert message.max_batch_size == 4
    assert message.HasField("dynamic_batching")
    assert not message.model_transaction_policy.decoupled


def test_only_what_a_backend_may_set_is_taken_over(tmp_path: pathlib.Path) -> None:
    message = complete(tmp_path, 'config.as_dict()["name"] = "other"\nreturn config')
    assert message.name == "m"


def test_a_scheduler_that_the_config_names_stays(tmp_path: pathlib.Path) -> None:
    given = model_config_pb2.ModelConfig().dynamic_batching
    given.max_queue_delay_microseconds = 7
    message = complete(
        tmp_path,
        'config.as_dict()["dynamic_batching"] = {"max_queue_delay_microseconds": 9}\nreturn config',
        dynamic_batching=given,
    )
    assert message.dynamic_batching.max_queue_delay_microseconds == 7


def test_a_model_without_the_hook_leaves_its_config_alone(tmp_path: pathlib.Path) -> None:
    message = model_config_pb2.ModelConfig(name="m", backend="python", max_batch_size=3)
    before = message.SerializeToString()
    write(tmp_path, IDENTITY)
    PythonBackend(clock=ManualClock()).complete(
        message, model_dir=tmp_path, version_dir=tmp_path / "1", options={}
    )
    assert message.SerializeToString() == before


@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        ("return 5", "must return a valid pb.ModelConfig object; it returned int"),
        ("pass", "it returned nothing"),
        ("config.set_max_batch_size(1)", "specified max_batch_size 8, but in auto-complete-config"),
        ('config.as_dict()["input"] = [{"dims": "wide"}]\nreturn config', "no model configuration"),
        ("raise RuntimeError('boom')", "auto_complete_config failed: RuntimeError: boom"),
    ],
)
def test_a_completion_that_fails_says_why(tmp_path: pathlib.Path, body: str, fragment: str) -> None:
    with pytest.raises(InferenceError) as caught:
        complete(tmp_path, body, max_batch_size=8)
    assert fragment in caught.value.message


def test_force_cpu_is_yes_or_no(tmp_path: pathlib.Path) -> None:
    key = "FORCE_CPU_ONLY_INPUT_TENSORS"
    config = python_config()
    config.message.parameters[key].string_value = "no"
    load(write(tmp_path, IDENTITY), config)
    config.message.parameters[key].string_value = "perhaps"
    with pytest.raises(InferenceError, match=f"Incorrect value for {key}: 'perhaps'"):
        load(tmp_path, config)


def test_kinds_are_told_to_the_model() -> None:
    assert [kind.value for kind in InstanceKind] == ["CPU", "GPU", "MODEL"]
