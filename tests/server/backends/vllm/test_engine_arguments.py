"""The files of a language model: what is taken, and what is refused with which words."""

import json
import pathlib
from typing import Any

import pytest

from naiad.backends.vllm import engine_arguments
from naiad.backends.vllm.engine_arguments import check_devices, check_known, read_arguments
from naiad.errors import ErrorCode, InferenceError


def written(folder: pathlib.Path, arguments: Any, adapters: Any = None) -> pathlib.Path:
    for name, content in (("model", arguments), ("multi_lora", adapters)):
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / f"{name}.json").write_text(text)
    return folder


def refused(folder: pathlib.Path) -> str:
    with pytest.raises(InferenceError) as caught:
        read_arguments("m", folder)
    assert caught.value.code is ErrorCode.INVALID_ARG
    return caught.value.message.removeprefix(f"unable to load model 'm': {folder}/")


def test_arguments_are_those_of_the_file(tmp_path: pathlib.Path) -> None:
    arguments = {"model": "./weights", "tokenizer": "org/name", "seed": 3, "enforce_eager": "True"}
    found = read_arguments("m", written(tmp_path, arguments))
    assert found.values == {
        "model": str(tmp_path / "weights"), "tokenizer": "org/name", "seed": 3, "enforce_eager": True,
    }  # fmt: skip
    assert found.adapters == {}


def test_adapters_count_only_where_they_are_enabled(tmp_path: pathlib.Path) -> None:
    adapters = {"one": "./one", "two": "/two"}
    written(tmp_path, {"model": "a", "enable_lora": "false"}, adapters)
    assert read_arguments("m", tmp_path).adapters == {}
    written(tmp_path, {"model": "a", "enable_lora": True})
    assert read_arguments("m", tmp_path).adapters == {"one": str(tmp_path / "one"), "two": "/two"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"model": "a",}', "model.json:1:15: it is not JSON: "),
        ("null", "model.json: it holds null, not an object"),
        ('"a"', "model.json: it holds a text, not an object"),
        ("{}", "model.json: 'model' is missing"),
        ('{"model": ["a"]}', "model.json: 'model' is [\"a\"]: it must be the name"),
        ('{"model": ""}', "model.json: 'model' is \"\""),
        ('{"model": "a", "pipeline_parallel_size": true}', "'pipeline_parallel_size' is true: it must be a number of GPUs"),
        ('{"a": {"b": 1, "b": 2}}', "model.json: it names 'b' twice"),
        ('{"model": "a", "enable_lora": true}', "multi_lora.json: there is no such file"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    assert message in refused(written(tmp_path, text))


def test_a_file_that_is_too_large_or_nested_too_deeply(tmp_path: pathlib.Path) -> None:
    large = '{"model": "' + "a" * (1 << 20) + '"}'
    message = refused(written(tmp_path, large))
    assert message == "model.json: it has 1048589 bytes, more than 1048576"
    assert refused(written(tmp_path, "[" * 100_000)).startswith(
        "model.json: maximum recursion depth"
    )


def test_files_that_are_missing_or_no_text(tmp_path: pathlib.Path) -> None:
    assert refused(tmp_path).startswith(
        "model.json: there is no such file: write there the engine's"
    )
    (tmp_path / "model.json").write_bytes(b"\xff\xfe")
    assert "model.json: it cannot be read: 'utf-8' codec" in refused(tmp_path)
    written(tmp_path, {"model": "a", "enable_lora": True}, {"one": 1})
    assert (
        refused(tmp_path) == "multi_lora.json: 'one' is 1: it must be the folder of a LoRA adapter"
    )


def test_an_argument_that_the_engine_does_not_have(tmp_path: pathlib.Path) -> None:
    arguments = read_arguments("m", written(tmp_path, {"model": "a", "max_num_seq": 1, "x": 2}))
    with pytest.raises(InferenceError) as caught:
        check_known("m", tmp_path, arguments, {"model", "max_num_seqs"})
    assert caught.value.message.endswith(
        "the installed vllm has no engine argument 'max_num_seq' (did you mean 'max_num_seqs'?), 'x'"
    )


def test_an_engine_on_several_gpus_needs_an_instance_that_leaves_them_to_it(
    tmp_path: pathlib.Path,
) -> None:
    two = {"model": "a", "tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    arguments = read_arguments("m", written(tmp_path, two))
    for kind in ("MODEL", "KIND_MODEL", "CPU"):
        check_devices("m", arguments, kind)
    for kind in ("GPU", "KIND_GPU"):
        with pytest.raises(InferenceError, match="asks for 4 GPUs"):
            check_devices("m", arguments, kind)


def test_sources_without_the_classes_say_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "made_up_engine"
    (package / "engine").mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setattr(engine_arguments, "PACKAGE", package.name)
    monkeypatch.syspath_prepend(tmp_path)
    for text in (None, "x = (", "class Other:\n    model: str\n", "class EngineArgs: pass\n"):
        if text is not None:
            (package / "engine" / "arg_utils.py").write_text(text)
        assert engine_arguments.known_by_source() == frozenset()
