"""Environments as models get them: built by a real pip from wheels of ours, unpacked, and looked at."""

import collections.abc
import dataclasses
import importlib.util
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

from naiad.core.clock import ManualClock
from naiad.environments import commands
from naiad.environments.environments import Environments
from naiad.environments.inspector import Environment, packages_in
from naiad.environments.spec import Packed, Required
from naiad.errors import ErrorCode, InferenceError
from tests.support.wheels import wheel

pytestmark = pytest.mark.timeout(600)  # installers are as fast as the disk


@pytest.fixture
def environments() -> collections.abc.Iterator[Environments]:
    ours = Environments(clock=ManualClock())
    yield ours
    ours.close()


def printed(environment: Environment, code: str) -> str:
    """What a program of that environment prints."""
    return subprocess.run(
        [environment.executable, "-c", code],
        env=commands.environ(os.environ, environment.variables),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def required(folder: pathlib.Path, text: str) -> Required:
    (folder / "wheels").mkdir(parents=True, exist_ok=True)
    (folder / "requirements.txt").write_text(text)
    return Required(file=folder / "requirements.txt", wheels=folder / "wheels")


def test_an_environment_is_built_from_wheels_once_and_holds_nothing_of_the_servers_but_numpy(
    environments: Environments, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="naiad")
    options = {"environment-cache": str(tmp_path / "cache")}
    needs = []
    for name in ("one", "two"):
        wheel(tmp_path / name / "wheels", "greeting", "1.0", "WORD = 'hello'\n", ("whom",))
        wheel(tmp_path / name / "wheels", "whom", "2.0", "NAME = 'you'\n")
        needs.append(required(tmp_path / name, "greeting==1.0\n"))
    first = environments.get("one", needs[0], options)
    code = "import greeting, whom, numpy; print(greeting.WORD, whom.NAME, numpy.arange(3).sum())"
    assert printed(first, code) == "hello you 3"
    code = "import importlib.util as u; print([u.find_spec(n) for n in ('naiad', 'orjson', 'pip')])"
    assert printed(first, code) == "[None, None, None]"
    assert "[one] Successfully installed greeting-1.0 whom-2.0" in caplog.text
    caplog.clear()
    assert environments.get("two", needs[1], options) == first
    assert Environments(clock=ManualClock()).get("two", needs[1], options) == first
    assert caplog.text == ""


@pytest.mark.slow
def test_a_server_without_pip_builds_all_the_same(
    environments: Environments, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "pip" else find(name)
    )
    wheel(tmp_path / "wheels", "greeting", "1.0", "WORD = 'hello'\n")
    wheel(tmp_path / "wheels", "numpy", "1.99", "", package=True)
    options = {"environment-cache": str(tmp_path / "cache")}
    environment = environments.get("m", required(tmp_path, "greeting\nnumpy"), options)
    assert printed(environment, "import greeting; print(greeting.WORD)") == "hello"


@pytest.mark.slow
def test_a_failed_build_shows_the_output_of_the_installer_and_leaves_nothing(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    spec = required(tmp_path, "nonesuch==99\n")
    with pytest.raises(InferenceError) as caught:
        environments.get("m", spec, {"environment-cache": str(tmp_path / "cache")})
    message = caught.value.message
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert "unable to load model 'm'" in message
    assert "ERROR: No matching distribution found for nonesuch==99" in message
    assert f"from the wheels in {spec.wheels} only" in message
    assert 'naiad.requirements to "ignore"' in message
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


@pytest.mark.slow
def test_the_environment_of_all_models_is_not_tried_again_for_each_but_after_a_minute(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="naiad")
    clock = ManualClock()
    environments = Environments(clock=clock)
    spec = dataclasses.replace(required(tmp_path, "nonesuch==99\n"), shared=True)
    options = {"environment-cache": str(tmp_path / "cache")}
    for name in ("a", "b"):
        with pytest.raises(InferenceError) as caught:
            environments.get(name, spec, options)
        assert caught.value.message.startswith(f"unable to load model '{name}': its environment")
        assert "No matching distribution found for nonesuch==99" in caught.value.message
    assert caplog.text.count("building an environment") == 1
    clock.advance(ns=61_000_000_000)
    with pytest.raises(InferenceError):
        environments.get("b", spec, options)
    assert caplog.text.count("building an environment") == 2
    environments.close()


def test_requirements_that_bring_no_wheels_folder_say_so(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    spec = Required(file=required(tmp_path, "").file, wheels=tmp_path / "none")
    with pytest.raises(InferenceError, match=r"the wheel folder .*none does not exist"):
        environments.get("m", spec, {"environment-cache": str(tmp_path / "cache")})


def test_requirements_that_are_not_text_are_named(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    spec = required(tmp_path, "")
    spec.file.write_bytes(b"\xff\xfeg\0")
    with pytest.raises(InferenceError, match=r"requirements\.txt is not valid UTF-8 text"):
        environments.get("m", spec, {"environment-cache": str(tmp_path / "cache")})


def test_a_folder_is_taken_as_it_stands(environments: Environments, packed: pathlib.Path) -> None:
    environment = environments.get("m", Packed(path=packed), {})
    assert environment.executable == str(packed / "bin" / "python")
    assert environment.variables["VIRTUAL_ENV"] == str(packed)
    assert printed(environment, "import packed_word, numpy; print(packed_word.WORD)") == "packed"


def test_a_folder_that_was_changed_is_looked_at_again(
    environments: Environments, packed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    spec = Packed(path=shutil.copytree(packed, tmp_path / "env", symlinks=True))
    before = environments.get("m", spec, {})
    assert environments.get("m", spec, {}) is before
    with (tmp_path / "env" / "bin" / "activate").open("a") as script:
        script.write("export WORD=new\n")
    assert environments.get("m", spec, {}).variables["WORD"] == "new"


def test_a_folder_is_not_written_to(environments: Environments, packed: pathlib.Path) -> None:
    shutil.rmtree(packages_in(packed) / "numpy" / "__pycache__", ignore_errors=True)
    Environments(clock=ManualClock()).get("m", Packed(path=packed), {})
    assert not (packages_in(packed) / "numpy" / "__pycache__").exists()


def test_the_error_of_a_read_only_cache_names_the_option(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InferenceError, match=r"File exists.*environment-cache=FOLDER chooses"):
        environments.get(
            "m", required(tmp_path, "x"), {"environment-cache": str(tmp_path / "cache")}
        )


def test_a_tarball_is_unpacked_once(
    environments: Environments,
    packed_tarball: pathlib.Path,
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="naiad")
    options = {"environment-cache": str(tmp_path)}
    environment = environments.get("m", Packed(path=packed_tarball), options)
    folder = pathlib.Path(environment.executable).parents[1]
    assert folder.parent == tmp_path
    assert environment.variables["VIRTUAL_ENV"] == str(folder)
    assert printed(environment, "import packed_word, sys; print(sys.prefix)") == str(folder)
    assert environments.get("other", Packed(path=packed_tarball), options) == environment
    assert caplog.text.count("unpacking") == 1


def fake(folder: pathlib.Path, *, says: str) -> Packed:
    """An environment whose interpreter prints something, unless it is given a file to run."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "activate").touch()
    python = folder / "bin" / "python"
    python.write_text(
        f'#!/bin/sh\nif [ -f "$1" ]; then exec {sys.executable} "$@"; fi\necho \'{says}\'\n'
    )
    python.chmod(0o755)
    return Packed(path=folder)


def test_conda_unpack_is_run_where_the_environment_is_then(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    spec = fake(tmp_path / "env", says='[[3, 9, 1], "1.26", ""]')
    script = "import pathlib, sys; pathlib.Path(sys.argv[0]).with_name('done').write_text('yes')"
    (spec.path / "bin" / "conda-unpack").write_text(script)
    with tarfile.open(tmp_path / "e.tar", "w") as archive:
        archive.add(spec.path, ".")
    options = {"environment-cache": str(tmp_path / "cache")}
    environment = environments.get("m", Packed(path=tmp_path / "e.tar"), options)
    assert pathlib.Path(environment.executable).with_name("done").read_text() == "yes"


def test_without_the_interpreter_the_servers_takes_the_environments_packages(
    environments: Environments, packed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "env"
    shutil.copytree(packed / "bin", folder / "bin", ignore=shutil.ignore_patterns("python*"))
    (folder / "lib").symlink_to(packed / "lib")
    (folder / "bin" / "python").symlink_to("/nonesuch/python3.11")
    environment = environments.get("m", Packed(path=folder), {})
    assert environment.executable == getattr(sys, "_base_executable", sys.executable)
    assert printed(environment, "import packed_word, numpy; print(numpy.__file__)").startswith(
        str(folder)
    )
    (folder / "lib").unlink()
    with pytest.raises(InferenceError, match=r"link to /nonesuch/python3\.11.*not on this machine"):
        Environments(clock=ManualClock()).get("m", Packed(path=folder), {})


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ('[[3, 7, 1], "1.2", ""]', "holds Python 3.7.1; a worker needs 3.8 or newer"),
        ('[[3, 9, 1], "", "No module named numpy"]', "no working numpy.*No module named numpy"),
    ],
)
def test_the_error_of_an_unusable_environment_explains_why(
    says: str, error: str, environments: Environments, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(InferenceError, match=error):
        environments.get("m", fake(tmp_path / "env", says=says), {})


def test_without_activate_it_is_not_an_environment(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(InferenceError, match="should contain an 'activate' script"):
        environments.get("m", Packed(path=tmp_path), {})


def test_a_path_that_does_not_exist_is_an_error(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(
        InferenceError, match=r"canonical path for .*none\.tar\.gz: EXECUTION_ENV_PATH"
    ):
        environments.get("m", Packed(path=tmp_path / "none.tar.gz"), {})


def test_a_tarball_that_leads_outside_is_refused(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    with tarfile.open(tmp_path / "e.tar", "w") as archive:
        archive.add(__file__, "../evil.py")
    options = {"environment-cache": str(tmp_path / "cache")}
    with pytest.raises(InferenceError, match=r"e\.tar cannot be unpacked: its member '../evil.py'"):
        environments.get("m", Packed(path=tmp_path / "e.tar"), options)


def test_a_server_that_stops_stops_building(
    environments: Environments, tmp_path: pathlib.Path
) -> None:
    environments.close()
    with pytest.raises(InferenceError) as caught:
        environments.get(
            "m", required(tmp_path, "x"), {"environment-cache": str(tmp_path / "cache")}
        )
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_a_number_of_days_has_to_be_one(environments: Environments, tmp_path: pathlib.Path) -> None:
    options = {"environment-cache": str(tmp_path), "environment-keep-days": "long"}
    with pytest.raises(InferenceError, match="environment-keep-days=long: it must be a number"):
        environments.get("m", required(tmp_path, "x"), options)
