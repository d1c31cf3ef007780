"""A repository that is given one level off: what the error says for folders and for stores."""

import pathlib

import pytest

from naiad.errors import InferenceError
from naiad.repository.store import LocalStore
from naiad.repository.stores.level import repository_in
from tests.stores.fakes import FakeClient, make_store

HELD = ("plain/1/model.onnx", "plain/config.pbtxt", "other/1/model.py", "README.md")


@pytest.mark.parametrize(
    ("paths", "repository"),
    [
        (HELD, ""),
        (tuple(f"models/{path}" for path in HELD), "models"),
        (("a/models/plain/config.pbtxt", "notes.txt"), "a/models"),
        (("1/model.onnx", "assets/en/1/model.bin"), None),
        (("config.pbtxt", "assets/en/config.pbtxt"), None),
        (("configs/gpu.pbtxt", "assets/en/config.pbtxt"), None),
        (("assets/2024/photo.png", "vocabulary.txt"), None),
        ((), None),
    ],
)
def test_a_folder_without_versions_that_holds_models_is_a_repository(
    paths: tuple[str, ...], repository: str | None
) -> None:
    assert repository_in(paths) == repository


def write(root: pathlib.Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("content")


def test_a_local_folder_around_a_repository_is_not_a_model(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "data/models/plain/1/model.onnx", "data/good/1/model.onnx")
    store = LocalStore(str(tmp_path / "data"))
    assert store.checkout("good").folder == tmp_path / "data" / "good"
    with pytest.raises(InferenceError) as caught:
        store.checkout("models")
    folder = tmp_path / "data" / "models"
    assert caught.value.message == (
        f"{folder}: this is not a model, because it holds models itself; give {folder} as the repository"
    )


def test_a_version_that_is_a_link_to_everything_is_not_read(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "m/labels.txt")
    (tmp_path / "m" / "1").symlink_to("/")
    assert LocalStore(str(tmp_path)).checkout("m").folder == tmp_path / "m"


def test_a_store_around_a_repository_is_named_before_anything_is_downloaded(
    tmp_path: pathlib.Path,
) -> None:
    client = FakeClient(**{"models/plain/1/model.onnx": b"", "models/dbl//1/model.onnx": b""})
    with pytest.raises(InferenceError) as caught:
        make_store(client, tmp_path).checkout("models")
    place = "s3://bucket/models/models"
    assert caught.value.message == (
        f"{place}: this is not a model, because it holds models itself; give {place} as the repository"
    )
    assert not client.reads


@pytest.mark.parametrize("file", ["config.pbtxt", "1/model.onnx"])
def test_the_folder_of_one_model_in_a_store_is_not_a_repository(
    file: str, tmp_path: pathlib.Path
) -> None:
    client = FakeClient(**{file: b"", "1/weights.bin": b""})
    with pytest.raises(InferenceError) as caught:
        make_store(client, tmp_path).names()
    assert caught.value.message == (
        "s3://bucket/models: this is the folder of one model; give the folder around it, s3://bucket"
    )


def test_a_model_whose_name_is_a_number_is_served(tmp_path: pathlib.Path) -> None:
    client = FakeClient(**{"1/1/model.onnx": b"", "1/config.pbtxt": b""})
    assert make_store(client, tmp_path).names() == ["1"]
