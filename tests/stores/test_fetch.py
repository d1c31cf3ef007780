"""`naiad fetch` from an object store: whole or not at all, and what is there already is not downloaded again."""

import pathlib

import pytest

from naiad import fetch
from tests.stores.conftest import Bucket
from tests.stores.proxy import Proxy, unchanged


@pytest.fixture
def model(bucket: Bucket) -> Bucket:
    bucket.put("m/1/model.onnx", b"weights" * 1000)
    bucket.put("m/config.pbtxt", b"config")
    bucket.put("n/1/", b"")
    return bucket


def run(address: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = fetch.main([address, "--to", str(folder)])
    said = capsys.readouterr()
    return status, said.out + said.err


def beside(folder: pathlib.Path) -> list[str]:
    return sorted(
        path.name for path in folder.parent.iterdir() if path.name.startswith(f".{folder.name}.")
    )


def test_models_come_whole_and_only_what_changed_comes_again(
    model: Bucket, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "deep" / "fetched"
    status, said = run(model.address, folder, capsys)
    assert (status, said) == (0, f"naiad fetch: 2 models, 2 files, 7 kB, in {folder}\n")
    assert (folder / "m" / "1" / "model.onnx").read_bytes() == b"weights" * 1000
    assert (folder / "m" / "1" / "model.onnx").stat().st_nlink == 1
    assert (folder / "n" / "1").is_dir()
    assert beside(folder) == [".fetched.lock"]
    assert run(model.address, folder, capsys)[1].endswith(": there already\n")
    model.put("m/config.pbtxt", b"other")
    assert run(model.address, folder, capsys)[0] == 0
    assert (folder / "m" / "config.pbtxt").read_bytes() == b"other"
    (folder / "m" / "config.pbtxt").unlink()
    assert run(model.address, folder, capsys)[0] == 0
    assert (folder / "m" / "config.pbtxt").read_bytes() == b"other"


def test_a_fetch_that_failed_goes_on_with_what_it_has(
    model: Bucket, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fetched"
    model.put("m/1/model.onnx", b"weights" * 100_000)
    model.put("o/1/model.onnx", b"unreadable")

    def cut(piece: bytes, offset: int, connection: int) -> bytes | None:
        return None if b"unreadable" in piece else piece

    with Proxy(model.server.port, cut) as proxy:
        address = proxy.address(f"{model.name}/models")
        assert run(address, folder, capsys)[0] == 1
        assert not folder.exists()
        assert beside(folder) == [".fetched.lock", ".fetched.objects"]
        assert proxy.received > 700_000
        proxy.received, proxy.change = 0, unchanged
        assert run(address, folder, capsys)[0] == 0
        assert proxy.received < 100_000
    assert (folder / "m" / "1" / "model.onnx").read_bytes() == b"weights" * 100_000
    assert beside(folder) == [".fetched.lock"]


def test_a_model_that_cannot_be_a_folder_is_named_and_the_others_come(
    model: Bucket, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fetched"
    model.put("dbl/1/a\nb", b"weights")
    model.put("models/m/1/model.onnx", b"weights")
    errors = (
        "naiad fetch: error: model 'dbl' is not copied: the object 'dbl/1/a\\nb' cannot be a file: it holds control characters; rename or delete it\n"
        f"naiad fetch: error: model 'models' is not copied: {model.address}/models: this is not a model, because it holds models itself; give "
        f"{model.address}/models as the repository\n"
    )
    for there in ("", ": there already"):
        status, said = run(model.address, folder, capsys)
        assert status == 1
        assert said == f"naiad fetch: 2 models, 2 files, 7 kB, in {folder}{there}\n{errors}"
        assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == ["m", "n"]


def test_a_model_that_was_fetched_before_is_not_lost_when_it_cannot_be_a_folder_any_more(
    model: Bucket, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fetched"
    assert run(model.address, folder, capsys)[0] == 0
    model.put("m/1/a\nb", b"other")
    status, said = run(model.address, folder, capsys)
    assert status == 1
    assert said.endswith(f"; {folder} has it from before, and stays as it is\n")
    assert (folder / "m" / "1" / "model.onnx").exists()


def test_a_repository_without_a_model_that_can_be_a_folder_is_an_error(
    bucket: Bucket, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put("dbl/1/a\nb", b"weights")
    status, said = run(bucket.address, tmp_path / "fetched", capsys)
    assert status == 1
    assert said.startswith("naiad fetch: error: model 'dbl' is not copied: the object")
    assert not (tmp_path / "fetched").exists()


def test_what_cannot_be_read_is_one_sentence(
    bucket: Bucket, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for address, expected in (
        (bucket.server.address("missing-bucket"), "there is no such bucket; check its name"),
        (bucket.address, "there is no model; check the bucket and the prefix"),
    ):
        status, said = run(address, tmp_path / "fetched", capsys)
        assert status == 1
        assert said.startswith(f"naiad fetch: error: {address}: {expected}")
        assert said.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".f")] == [
            ".fetched.lock"
        ]


def test_files_come_as_they_are_and_one_object_by_its_own_address(
    bucket: Bucket, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put("vocab.txt", b"words")
    bucket.put("1/tokenizer.json", b"{}")
    whole, one, cache = (tmp_path / name for name in ("whole", "one", "cache"))

    def fetched(address: str, folder: pathlib.Path, *options: str) -> tuple[int, str]:
        status = fetch.main([address, "--files", "--to", str(folder), *options])
        said = capsys.readouterr()
        return status, said.out + said.err

    said = f"naiad fetch: 2 files, 7 B, in {whole}"
    assert fetched(bucket.address, whole) == (0, f"{said}\n")
    assert fetched(bucket.address, whole) == (0, f"{said}: there already\n")
    assert (whole / "vocab.txt").read_bytes() == b"words"
    assert (whole / "1" / "tokenizer.json").read_bytes() == b"{}"
    assert beside(whole) == [".whole.lock"]
    options = ("--repository-cache-directory", str(cache))
    for _ in range(2):
        assert fetched(f"{bucket.address}/vocab.txt", one, *options)[0] == 0
    assert [path.name for path in one.iterdir() if path.suffix == ".txt"] == ["vocab.txt"]
    status, said = fetched(f"{bucket.address}/absent", tmp_path / "absent")
    assert status == 1
    assert "/absent: there is no file; check the bucket and the path" in said
