"""`naiad fetch`: whole or not at all, nothing from outside the repository, and safe to run again."""

import errno
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from naiad import fetch
from naiad.errors import InferenceError
from naiad.repository.reading import contents
from naiad.repository.reading.copy_progress import Progress
from naiad.repository.store import open_store
from tests.support.waiting import wait_until


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    root = tmp_path / "models"
    for model in ("a", "b"):
        (root / model / "1").mkdir(parents=True)
        (root / model / "1" / "model.onnx").write_bytes(model.encode() * 1000)
        (root / model / "config.pbtxt").write_text(f'name: "{model}"')
    (root / "a" / "2").mkdir()
    return root


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where a repository is fetched to; it does not exist."""
    return tmp_path / "fetched"


def tree(folder: pathlib.Path) -> dict[str, bytes | None]:
    """Every path below, with the bytes of files; links are neither."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if path.name != ".naiad-fetch.json"
    }


def run(
    repository: pathlib.Path | str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    status = fetch.main([str(repository), "--to", str(folder)])
    output = capsys.readouterr()
    return status, output.out, output.err


def test_files_come_as_they_are(
    tmp_path: pathlib.Path, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "given"
    (given / "1").mkdir(parents=True)
    (given / "vocab.txt").write_text("words")
    (given / "1" / "model.json").write_text("{}")
    assert fetch.main([str(given), "--to", str(folder)]) == 1
    assert "this is the folder of one model" in capsys.readouterr().err
    assert fetch.main([str(given), "--files", "--to", str(folder)]) == 0
    assert capsys.readouterr().out == f"naiad fetch: 2 files, 7 B, in {folder}\n"
    assert tree(folder) == tree(given)
    assert fetch.main([str(given), "--files", "--to", str(folder)]) == 0
    assert capsys.readouterr().out.endswith(": there already\n")


def test_files_need_a_folder_that_is_not_theirs(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = (
        ((str(tmp_path), "--to", str(tmp_path / "inside")), 1, "overlap; give another one"),
        ((str(tmp_path / "absent"), "--to", str(tmp_path / "b")), 1, "this is not a folder"),
        ((str(tmp_path), "--repository-cache-directory", str(tmp_path / "c")), 2, "--files needs a folder"),
    )  # fmt: skip
    for arguments, status, message in cases:
        assert fetch.main([*arguments, "--files"]) == status
        assert message in capsys.readouterr().err


def beside(folder: pathlib.Path) -> list[str]:
    return sorted(p.name for p in folder.parent.iterdir() if p.name.startswith(f".{folder.name}."))


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_repository_comes_whole_and_a_server_can_read_it(
    repository: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    prefix: str,
) -> None:
    folder = tmp_path / "deep" / "fetched"
    status, out, err = run(f"{prefix}{repository}", folder, capsys)
    assert (status, err) == (0, "")
    assert out == f"naiad fetch: 2 models, 4 files, 2 kB, in {folder}\n"
    assert tree(folder) == tree(repository)
    assert open_store(str(folder)).names() == ["a", "b"]
    copied = (folder / "a" / "1" / "model.onnx").stat()
    assert copied.st_mtime_ns == (repository / "a" / "1" / "model.onnx").stat().st_mtime_ns
    assert beside(folder) == [".fetched.lock"]


def test_a_second_fetch_copies_nothing(
    repository: pathlib.Path,
    folder: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(repository, folder, capsys)
    before = folder.stat().st_ino
    status, out, _ = run(repository, folder, capsys)
    assert status == 0
    assert out.endswith(": there already\n")
    assert folder.stat().st_ino == before


def test_what_changed_at_either_end_is_fetched_again(
    repository: pathlib.Path,
    folder: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(repository, folder, capsys)
    (repository / "b" / "1" / "model.onnx").write_bytes(b"new")
    (repository / "a" / "config.pbtxt").unlink()
    assert run(repository, folder, capsys)[0] == 0
    assert tree(folder) == tree(repository)
    (folder / "b" / "config.pbtxt").unlink()
    assert run(repository, folder, capsys)[0] == 0
    assert tree(folder) == tree(repository)
    assert beside(folder) == [".fetched.lock"]


def test_a_fetch_that_was_killed_is_run_again_and_nothing_of_it_stays(
    repository: pathlib.Path,
    folder: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fetch, "_remove", lambda _: None)  # a kill cleans nothing up
        patched.setattr(contents, "_copy_file", killed)
        assert fetch.main([str(repository), "--to", str(folder)]) == 130
    assert not folder.exists(), "a server must not see half of it"
    assert beside(folder) == [".fetched.fetching", ".fetched.lock"]
    assert run(repository, folder, capsys)[0] == 0
    assert tree(folder) == tree(repository)
    assert beside(folder) == [".fetched.lock"]


def test_sigterm_ends_a_fetch_at_once_and_cleanly(
    repository: pathlib.Path, tmp_path: pathlib.Path, folder: pathlib.Path
) -> None:
    """The first process of a container gets no default action; here the handler is what is seen."""
    os.mkfifo(tmp_path / "pipe")
    script = (
        "import sys\nfrom naiad import fetch\nfrom naiad.repository.reading import contents\n"
        f"contents._copy_file = lambda *_: open({str(tmp_path / 'pipe')!r}).read()\n"
        "sys.exit(fetch.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, str(repository), "--to", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Opening the pipe's other end returns once the fetch is in the middle of its copy.
    with subprocess.Popen(command, env=environment) as process, (tmp_path / "pipe").open("w"):
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 143
    assert beside(folder) == [".fetched.lock"]


def test_an_address_that_cannot_be_used_is_refused_before_anything_is_written(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run("s3://key:SECRET@bucket", tmp_path / "fetched", capsys)
    assert (status, out) == (1, "")
    assert err.startswith("naiad fetch: error: s3://…: ")
    assert "SECRET" not in err
    assert not list(tmp_path.iterdir())


def test_links_that_stay_inside_are_copied_as_what_they_point_at(
    repository: pathlib.Path,
    folder: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mounted ConfigMap is made of such links."""
    (repository / "c").mkdir()
    (repository / "c" / "1").symlink_to("../a/1")
    (repository / "c" / "config.pbtxt").symlink_to(repository / "a" / "config.pbtxt")
    (repository / "..data").mkdir()
    (repository / "..data" / "labels.txt").write_text("x")
    (repository / "c" / "labels.txt").symlink_to("../..data/labels.txt")
    assert run(repository, folder, capsys)[0] == 0
    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    assert (folder / "c" / "1" / "model.onnx").read_bytes() == b"a" * 1000
    assert (folder / "c" / "labels.txt").read_text() == "x"
    assert not (folder / "..data").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/etc/passwd", "a/extra: this link leads out of the repository, to /etc/passwd"),
        ("../../secret", "a/extra: this link leads out of the repository"),
        ("nowhere", "a/extra: this link points at nowhere, which does not exist"),
        ("extra", "a/extra: this link leads back to itself"),
        ("..", "a/extra: this link leads back to a folder that it is in"),
        ("../../models", "a/extra: this link leads back to a folder that it is in"),
    ],
)
def test_a_link_that_leads_elsewhere_is_refused_and_named(
    repository: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    target: str,
    message: str,
) -> None:
    (tmp_path / "secret").write_text("secret")
    (repository / "a" / "extra").symlink_to(target)
    status, out, err = run(repository, tmp_path / "fetched", capsys)
    assert (status, out) == (1, "")
    assert err.startswith(f"naiad fetch: error: {message}")
    assert not (tmp_path / "fetched").exists()


def test_links_that_multiply_files_without_end_are_refused(
    repository: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contents, "_MAX_ENTRIES", 500)
    for level in range(12):
        (repository / "a" / f"d{level}").mkdir()
        for side in ("x", "y"):
            (repository / "a" / f"d{level}" / side).symlink_to(f"../d{level + 1}")
    (repository / "a" / "d12").mkdir()
    status, _, err = run(repository, tmp_path / "fetched", capsys)
    assert status == 1
    assert "more than 500 files and folders" in err


def test_a_pipe_is_refused_and_not_waited_for(
    repository: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(repository / "a" / "pipe")
    status, _, err = run(repository, tmp_path / "fetched", capsys)
    assert status == 1
    assert "a/pipe: is neither a file nor a folder" in err


def test_a_file_that_changes_meanwhile_is_not_trusted(
    repository: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    entries = contents.contents(repository)
    (repository / "b" / "1" / "model.onnx").write_bytes(b"half")
    (tmp_path / "target").mkdir()
    with pytest.raises(InferenceError, match=r"b/1/model\.onnx: changed while it was copied"):
        contents.copy(entries, tmp_path / "target", advance=lambda _: None)


def test_a_file_that_becomes_a_link_meanwhile_is_not_followed(
    repository: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    entries = contents.contents(repository)
    (repository / "b" / "config.pbtxt").unlink()
    (repository / "b" / "config.pbtxt").symlink_to("/etc/passwd")
    (tmp_path / "target").mkdir()
    with pytest.raises(InferenceError, match=r"b/config\.pbtxt: cannot be read"):
        contents.copy(entries, tmp_path / "target", advance=lambda _: None)


def test_a_folder_with_other_files_is_never_replaced(
    repository: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    assert run(repository, mine, capsys)[0] == 0, "an empty folder may be filled"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("x")
    status, _, err = run(repository, precious, capsys)
    assert status == 1
    assert "naiad fetch did not bring" in err
    assert (precious / "thesis.tex").read_text() == "x"
    status, _, err = run(repository, precious / "thesis.tex", capsys)
    assert status == 1
    assert "not a folder; give another name" in err


@pytest.mark.parametrize("where", ["models", "models/a/copy", "."])
def test_a_folder_in_or_around_the_repository_is_refused(
    repository: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    where: str,
) -> None:
    status, _, err = run(repository, tmp_path / where, capsys)
    assert status == 1
    assert "overlap" in err


def test_a_folder_that_is_not_a_repository_is_refused_as_the_server_does(
    repository: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong, said in (
        (tmp_path / "nothing", "there is no such folder"),
        (repository / "a" / "config.pbtxt", "this is a file"),
        (repository / "a", "this is the folder of one model"),
    ):
        status, _, err = run(wrong, tmp_path / "fetched", capsys)
        assert status == 1
        assert said in err


def test_two_fetches_into_one_folder_take_turns(
    repository: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fetched"
    done: list[int] = []
    said: list[str] = []

    def says_that_it_waits() -> bool:
        said.append(capsys.readouterr().err)
        return "another fetch is writing" in "".join(said)

    with (tmp_path / ".fetched.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=lambda: done.append(_status(repository, folder)))
        other.start()
        wait_until(says_that_it_waits)
        other.join(timeout=0.1)
        assert not done
        assert not folder.exists()
    other.join(timeout=120)
    assert done == [0]


def _status(repository: pathlib.Path, folder: pathlib.Path) -> int:
    """As `main` without its signal handler, which only a main thread may set."""
    _, failed = fetch.fetch(str(repository), folder)
    return len(failed)


def test_a_full_disk_is_reported_before_and_while_it_happens(
    repository: pathlib.Path,
    folder: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(contents, "_copy_file", full)
        status, _, err = run(repository, folder, capsys)
    assert status == 1
    assert err.endswith("the disk is full; the models need more room\n")
    assert beside(folder) == [".fetched.lock"]
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: _Usage())
        status, _, err = run(repository, folder, capsys)
    assert status == 1
    assert "the models take 2 kB, and" in err
    assert "has room for 5 B" in err


class _Usage:
    free = 5


def test_a_command_that_is_wrong_has_a_status_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert fetch.main(["models"]) == 2
    assert "--to" in capsys.readouterr().err
    assert fetch.main(["--help"]) == 0
    capsys.readouterr()
    for empty in (["", "--to=x"], ["x", "--to="]):
        assert fetch.main(empty) == 2
        assert "is empty" in capsys.readouterr().err


def test_progress_is_reported_now_and_then() -> None:
    now, said = [0.0], list[str]()
    progress = Progress(models=2, size=4_000_000, clock=lambda: now[0], say=said.append)
    progress.advance(1_000_000)
    assert not said
    now[0] = 5.0
    progress.advance(1_000_000)
    progress.advance(1)
    assert said == ["2.0 MB of 4.0 MB in 2 models (50 %)"]
