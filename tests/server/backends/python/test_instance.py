"""The life of a python model in a thread: found, loaded, initialized, asked whether it is ready, finalized."""

import json
import logging
import pathlib

import pytest

from naiad.config.model_config import InstanceKind
from naiad.core import datatypes
from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.configs import run, spec, values
from tests.server.backends.python.models import (
    IDENTITY,
    ask,
    instance_of,
    load,
    make_instance,
    python_config,
    write,
)


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
    model = instance.model
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
    assert [values(run(name, ask())[0])["OUT"] for name in names] == [[b"m_0_0"], [b"m_0_1"]]


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
    seen = [(record.levelname, record.getMessage(), record.lineno) for record in caplog.records]
    assert seen == [
        ("INFO", "plain", 7),
        ("ERROR", "loud", 8),
        ("INFO", "i", 9),
        ("WARNING", "w", 10),
        ("ERROR", "e", 11),
        ("DEBUG", "100 % v", 12),
    ]
    assert {record.name for record in caplog.records} == {"naiad.models.m"}


def test_force_cpu_is_yes_or_no(tmp_path: pathlib.Path) -> None:
    key = "FORCE_CPU_ONLY_INPUT_TENSORS"
    config = python_config()
    config.message.parameters[key].string_value = "no"
    load(write(tmp_path, IDENTITY), config)
    config.message.parameters[key].string_value = "perhaps"
    with pytest.raises(InferenceError, match=f"Incorrect value for {key}: 'perhaps'"):
        load(tmp_path, config)


def test_the_model_receives_the_kinds() -> None:
    assert [kind.value for kind in InstanceKind] == ["CPU", "GPU", "MODEL"]
