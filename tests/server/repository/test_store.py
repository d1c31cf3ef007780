"""Model repositories as folders, and the sentence for those that are not."""

import pathlib

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.store import open_store


def test_a_local_folder_gives_its_model_folders_sorted(tmp_path: pathlib.Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").touch()
    for location in (str(tmp_path), f"file://{tmp_path}"):
        folders = open_store(location).model_folders()
        assert [folder.name for folder in folders] == ["a", "b"]


@pytest.mark.parametrize("location", ["s3://bucket/x", "gs://bucket", "as://account/container"])
def test_an_object_store_is_refused_with_one_sentence(location: str) -> None:
    with pytest.raises(InferenceError) as caught:
        open_store(location)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert location in caught.value.message
    assert "copy the models to a local folder" in caught.value.message


def test_a_missing_folder_and_a_file_are_told_apart(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InferenceError, match="there is no such folder"):
        open_store(str(tmp_path / "none")).model_folders()
    with pytest.raises(InferenceError, match="this is a file"):
        open_store(str(file)).model_folders()


@pytest.mark.parametrize("file", ["config.pbtxt", "1/model.onnx", "3/model.py"])
def test_the_folder_of_one_model_is_no_repository(tmp_path: pathlib.Path, file: str) -> None:
    model = tmp_path / "model"
    for version in ("1", "3"):
        (model / version).mkdir(parents=True)
    (model / file).touch()
    with pytest.raises(InferenceError, match="give the folder around it") as caught:
        open_store(str(model)).model_folders()
    assert caught.value.message.endswith(str(tmp_path))


def test_models_may_be_named_like_numbers(tmp_path: pathlib.Path) -> None:
    (tmp_path / "1" / "1").mkdir(parents=True)
    (tmp_path / "1" / "1" / "model.onnx").touch()
    assert [folder.name for folder in open_store(str(tmp_path)).model_folders()] == ["1"]
