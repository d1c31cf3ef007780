"""`--model-config-override`: fields in place of those of a model's config file, and problems under the option's name."""

import json
import pathlib
from typing import Any

import pytest

from naiad.config.document import Document
from naiad.config.pbtxt import parser as pbtxt
from naiad.config.resolving.override import with_fields
from naiad.config.resolving.resolve import Resolution
from naiad.errors import InferenceError
from tests.server.config.model_folders import make_model, only, resolve

CONFIG = """\
backend: "python"
max_batch_size: 4
input { name: "X" data_type: TYPE_FP32 dims: 1 }
output { name: "Y" data_type: TYPE_FP32 dims: 1 }
instance_group { kind: KIND_CPU count: 2 }
parameters { key: "a" value { string_value: "file" } }
parameters { key: "b" value { string_value: "file" } }
"""


def overridden(tmp_path: pathlib.Path, fields: dict[str, Any], config: str = CONFIG) -> Document:
    folder = make_model(tmp_path, config)
    return with_fields(pbtxt.read(folder / "config.pbtxt"), json.dumps(fields))


def resolved(tmp_path: pathlib.Path, fields: dict[str, Any], config: str = CONFIG) -> Resolution:
    document = overridden(tmp_path, fields, config)
    return resolve(document.path.parent, document=document)


def test_a_field_replaces_the_one_of_the_file_as_a_whole(tmp_path: pathlib.Path) -> None:
    fields = {"maxBatchSize": 16, "instance_group": [{"kind": "kind_cpu", "count": 3}]}
    config = resolved(tmp_path, fields).config
    assert config is not None
    assert config.max_batch_size == 16
    assert [group.count for group in config.instance_groups] == [3]
    assert [each.name for each in config.inputs] == ["X"], "what it does not name stays"


def test_a_field_can_be_taken_out_and_set_to_its_default(tmp_path: pathlib.Path) -> None:
    message = overridden(tmp_path, {"maxBatchSize": 0, "instanceGroup": None}).message
    assert message.max_batch_size == 0
    assert not message.instance_group


def test_one_scheduler_takes_the_place_of_another(tmp_path: pathlib.Path) -> None:
    config = CONFIG + "sequence_batching { max_sequence_idle_microseconds: 5 }"
    fields = {"dynamicBatching": {"maxQueueDelayMicroseconds": 100}}
    message = overridden(tmp_path, fields, config).message
    assert message.WhichOneof("scheduling_choice") == "dynamic_batching"
    assert message.dynamic_batching.max_queue_delay_microseconds == 100


def test_parameters_are_replaced_one_by_one(tmp_path: pathlib.Path) -> None:
    fields = {"parameters": {"b": {"stringValue": "new"}, "c": {"string_value": "new"}}}
    parameters = overridden(tmp_path, fields).message.parameters
    values = {name: value.string_value for name, value in parameters.items()}
    assert values == {"a": "file", "b": "new", "c": "new"}


def test_a_model_without_a_config_file_can_have_fields(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path)
    document = with_fields(pbtxt.read(folder / "config.pbtxt"), '{"maxBatchSize": 2}')
    assert document.message.max_batch_size == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"maxBatchsize": 8}, "a model's config has no field 'maxBatchsize': did you mean maxBatchSize?"),
        ({"zzzz": 8}, "a model's config has no field 'zzzz': write the fields of config.pbtxt"),
        ({"instanceGroup": [{"cuont": 2}]}, 'has no field named "cuont"'),
        ({"maxBatchSize": "many"}, "Failed to parse maxBatchSize field"),
    ],
)  # fmt: skip
def test_a_field_that_no_config_has_is_named_with_the_option(
    tmp_path: pathlib.Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        overridden(tmp_path, fields)
    assert caught.value.message.startswith("--model-config-override=m: ")
    assert message in caught.value.message


def test_a_problem_with_an_overridden_field_is_the_options_and_another_is_the_files(
    tmp_path: pathlib.Path,
) -> None:
    bad = only(resolved(tmp_path, {"maxBatchSize": -1}))
    assert (str(bad.path), bad.position) == ("--model-config-override=m", None)
    config = CONFIG.replace("max_batch_size: 4", "max_batch_size: -1")
    problem = only(resolved(tmp_path, {"instanceGroup": [{"count": 1}]}, config))
    assert problem.path.name == "config.pbtxt"
    assert problem.position is not None
    assert problem.position.line == 2


def test_an_entry_of_a_map_is_the_options_and_the_others_are_the_files(
    tmp_path: pathlib.Path,
) -> None:
    document = overridden(tmp_path, {"parameters": {"b": {"string_value": "new"}}})
    assert str(document.problem(("parameters", "b", "string_value"), "").path) == "--model-config-override=m"  # fmt: skip
    assert document.problem(("parameters", "a"), "").path.name == "config.pbtxt"
