"""The official messages come without protobuf's Python implementation, and other packages can still use that implementation."""

import subprocess
import sys

import pytest

_LATER = "google.protobuf.internal.python_message"


def run(script: str) -> None:
    """In a new interpreter."""
    subprocess.run(
        [sys.executable, "-c", f"import sys\nname = '{_LATER}'\n{script}"],
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )


def test_messages_work_without_the_python_implementation() -> None:
    run(
        "from naiad.core.messages import model_config_pb2\n"
        "from google.protobuf import json_format, text_format\n"
        "config = model_config_pb2.ModelConfig(name='m')\n"
        "assert json_format.Parse(json_format.MessageToJson(config), type(config)()) == config\n"
        "assert text_format.Parse(str(config), type(config)()) == config\n"
        "assert not hasattr(sys.modules[name], '__file__')\n"
    )


def test_the_python_implementation_can_be_requested() -> None:
    run(
        "import naiad.core.messages\n"
        "from google.protobuf import descriptor_pool\n"
        "from google.protobuf.internal import python_message\n"
        "assert python_message.GeneratedProtocolMessageType\n"
        "assert descriptor_pool.python_message.GeneratedProtocolMessageType\n"
        "assert sys.modules[name].__file__\n"
    )


def test_what_was_imported_before_stays() -> None:
    run(
        "from google.protobuf.internal import python_message\n"
        "import naiad.core.messages\n"
        "assert sys.modules[name] is python_message\n"
    )


@pytest.mark.slow
def test_a_client_imported_afterwards_has_the_same_messages() -> None:
    run(
        "from naiad.core.messages import service_pb2\n"
        "import tritonclient.grpc\n"
        "assert tritonclient.grpc.service_pb2 is service_pb2\n"
    )
