"""Configs that load requests give as JSON: read as the reference reads them, and everything else refused."""

import contextlib
import json
import pathlib
import random
import re

import pytest
from google.protobuf import json_format
from hypothesis import assume, given, strategies as st

from naiad.config.config_json import to_json
from naiad.config.resolving.override import LARGEST, NAME, read
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode, InferenceError
from tests.server.config.messages import random_config
from tests.server.config.model_folders import make_model, only, resolve, shown

FOLDER = pathlib.Path("/models/m")


@given(st.randoms(use_true_random=False))
def test_the_json_of_a_config_reads_as_that_config(chance: random.Random) -> None:
    message = random_config(chance)
    shown = json.dumps(to_json(message))
    assume(not {"NaN", "Infinity", "-Infinity"} & set(re.findall(r"[-\w]+", shown)))
    assume("-0" not in str(message).split())  # which protobuf's own JSON writes as 0
    for text in (shown, json_format.MessageToJson(message)):
        assert read(text, FOLDER).message == message


def test_names_in_camel_case_and_enums_in_any_case_are_read_as_in_triton() -> None:
    config = """{"maxBatchSize": "8", "input": [{"name": "X", "data_type": "type_fp32", "dims": ["1"]}],
        "instance_group": [{"kind": "Kind_Cpu"}], "parameters": {"type_fp32": {"string_value": "type_fp32"}}}"""
    for text in (config, config.encode(), memoryview(config.encode())):
        message = read(text, FOLDER).message
        assert message.max_batch_size == 8
        assert message.input[0].data_type == model_config_pb2.TYPE_FP32
        assert message.instance_group[0].kind == model_config_pb2.ModelInstanceGroup.KIND_CPU
        assert message.parameters["type_fp32"].string_value == "type_fp32"


TENSORS = """"input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [1]}],
    "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}]"""


def test_the_folder_needs_no_config_file_beside_it(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path)
    document = read(f'{{"backend": "python", {TENSORS}}}', folder)
    assert shown(resolve(folder, document=document, auto_complete=False).problems) == []


def test_problems_are_shown_under_the_name_of_the_override(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path)
    document = read(f'{{"backend": "python", "max_batch_size": -1, {TENSORS}}}', folder)
    assert only(resolve(folder, document=document)).path == folder / NAME


@pytest.mark.parametrize(
    ("config", "fragment"),
    [
        ("", "Expecting value"),
        ("nope", "Expecting value"),
        ("[]", "expected a JSON object, not []"),
        ("null", "expected a JSON object, not null"),
        ('{"colour": "red"}', 'has no field named "colour"'),
        ('{"input": [{"colour": 1}]}', 'has no field named "colour"'),
        ('{"max_batch_size": "many"}', "max_batch_size"),
        ('{"max_batch_size": 5000000000}', "max_batch_size"),
        ('{"input": {}}', "input"),
        ('{"input": [null]}', "null"),
        ('{"input": [{"data_type": "TYPE_FP33"}]}', "TYPE_FP33"),
        ('{"parameters": []}', "parameters"),
        ('{"name": "\\ud800"}', "name"),
        (b"\xff", "utf-8"),
        ("[" * 100_000, "recursion"),
        ('{"a":' * 100_000, "recursion"),
        ("1" * 5_000, "digits"),
        (" " * (LARGEST + 1), "1,048,577 bytes, and 1,048,576 are allowed"),
    ],
)
def test_what_is_not_a_config_is_refused(config: str | bytes, fragment: str) -> None:
    with pytest.raises(InferenceError) as caught:
        read(config, FOLDER)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert caught.value.message.startswith("Invalid config override: ")
    assert fragment in caught.value.message
    assert "\n" not in caught.value.message


FIELDS = st.sampled_from([field.name for field in model_config_pb2.ModelConfig.DESCRIPTOR.fields])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(FIELDS | st.text(), children),
)


@given(st.dictionaries(FIELDS, JSON))
def test_any_json_is_read_or_refused(value: dict[str, object]) -> None:
    with contextlib.suppress(InferenceError):
        read(json.dumps(value), FOLDER)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"parameters": {"key": "ENV", "value": {"string_value": "env.tar.gz"}}},
            'parameters is a map, which JSON writes otherwise than config.pbtxt: write "parameters": {"ENV": {"string_value": "env.tar.gz"}}',
        ),
        (
            {"ccModelFilenames": [{"key": "7.5", "value": "a.onnx"}]},
            'ccModelFilenames is a map, which JSON writes otherwise than config.pbtxt: write "cc_model_filenames": {"7.5": "a.onnx"}',
        ),
        (
            {"parameters": {"ENV": "env.tar.gz"}},
            "parameters['ENV']: expected an object, not \"env.tar.gz\"",
        ),
        ({"input": ["IN"]}, 'input[0]: expected an object, not "IN"'),
        ({"dynamic_batching": True}, "dynamic_batching: expected an object, not true"),
        ({"optimization": {"graph": "x"}}, 'optimization.graph: expected an object, not "x"'),
    ],
)
def test_what_protobuf_would_misread_is_named_with_what_to_write(
    config: dict[str, object], says: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        read(json.dumps(config), FOLDER)
    assert caught.value.message.startswith(f"Invalid config override: {says}; send a ModelConfig")


def test_a_map_of_text_may_have_entries_with_the_names_key_and_value() -> None:
    document = read('{"cc_model_filenames": {"key": "a", "value": "b"}}', FOLDER)
    assert dict(document.message.cc_model_filenames) == {"key": "a", "value": "b"}
