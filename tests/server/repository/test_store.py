"""Model repositories in local folders, valid names (row 7.14), and the errors for locations that are not repositories."""

import pathlib

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.store import check_name, open_store
from tests.server.repository.stores import FakeStore


def test_a_local_repository_lists_its_models_sorted(tmp_path: pathlib.Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").touch()
    for location in (str(tmp_path), f"file://{tmp_path}"):
        store = open_store(location)
        assert store.names() == ["a", "b"]
        assert store.checkout("a").folder == tmp_path / "a"


def test_addresses_are_refused_where_only_folders_can_be_read() -> None:
    with pytest.raises(InferenceError) as caught:
        open_store("https://host/models.tar?signature=SECRET")
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert "run naiad fetch https://host/models.tar --to FOLDER" in caught.value.message
    assert "SECRET" not in caught.value.message


def test_addresses_go_to_the_remote_stores() -> None:
    remote = FakeStore()
    assert open_store("s3://bucket/models", remote=lambda location: remote) is remote


def test_a_missing_folder_and_a_file_are_distinguished(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InferenceError, match="there is no such folder"):
        open_store(str(tmp_path / "none")).names()
    with pytest.raises(InferenceError, match="this is a file"):
        open_store(str(file)).names()


@pytest.mark.parametrize("file", ["config.pbtxt", "1/model.onnx", "3/model.py"])
def test_the_folder_of_one_model_is_not_a_repository(tmp_path: pathlib.Path, file: str) -> None:
    model = tmp_path / "model"
    for version in ("1", "3"):
        (model / version).mkdir(parents=True)
    (model / file).touch()
    with pytest.raises(InferenceError, match="give the folder around it") as caught:
        open_store(str(model)).names()
    assert caught.value.message.endswith(str(tmp_path))


def test_models_may_be_named_like_numbers(tmp_path: pathlib.Path) -> None:
    (tmp_path / "1" / "1").mkdir(parents=True)
    (tmp_path / "1" / "1" / "model.onnx").touch()
    assert open_store(str(tmp_path)).names() == ["1"]


@pytest.mark.parametrize("name", ["m", "a.b-c_d", "..a", "ü", "a b"])
def test_the_name_of_a_folder_is_valid(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "Model name cannot be empty. Please enter a valid name to deploy."),
        (" \t", "Model name cannot be empty"),
        ("..", "must not contain path traversal characters"),
        (" .. ", "must not contain path traversal characters"),
        (".", "must not contain path traversal characters"),
        ("a/b", "must not contain path traversal characters"),
        ("/etc", "must not contain path traversal characters"),
        ("a\0b", "must not contain path traversal characters"),
    ],
)
def test_other_names_are_refused(name: str, expected: str) -> None:
    with pytest.raises(InferenceError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert expected in caught.value.message


@pytest.mark.parametrize("name", ["..", "../other/m", "/etc", ""])
def test_a_local_repository_reads_nothing_outside_of_it(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / "other" / "m").mkdir(parents=True)
    (tmp_path / "models").mkdir()
    store = open_store(str(tmp_path / "models"))
    for read in (store.checkout, store.fingerprint):
        with pytest.raises(InferenceError) as caught:
            read(name)
        assert caught.value.code is ErrorCode.INVALID_ARG
