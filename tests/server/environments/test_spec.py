"""Which environment a model needs."""

import pathlib

import pytest

from naiad.environments.spec import EnvironmentSpec, Packed, Required, refused_in_thread, spec_of
from naiad.errors import InferenceError


def needed(
    folder: pathlib.Path,
    parameters: dict[str, str] | None = None,
    options: dict[str, str] | None = None,
) -> EnvironmentSpec | None:
    (folder / "1").mkdir(exist_ok=True)
    return spec_of(
        "m",
        parameters=parameters or {},
        version_dir=folder / "1",
        options=options or {},
    )


def test_a_model_without_a_word_on_it_takes_the_servers(tmp_path: pathlib.Path) -> None:
    assert needed(tmp_path) is None
    assert needed(tmp_path, {"EXECUTION_ENV_PATH": ""}) is None


def test_a_path_is_taken_as_it_is(tmp_path: pathlib.Path) -> None:
    assert needed(tmp_path, {"EXECUTION_ENV_PATH": "/envs/a.tar.gz"}) == Packed(
        path=pathlib.Path("/envs/a.tar.gz")
    )


def test_the_models_folder_is_put_in(tmp_path: pathlib.Path) -> None:
    spec = needed(tmp_path, {"EXECUTION_ENV_PATH": "$$TRITON_MODEL_DIRECTORY/envs/../a.tar.gz"})
    assert spec == Packed(path=tmp_path / "a.tar.gz")


@pytest.mark.parametrize(
    "path", ["$$TRITON_MODEL_DIRECTORY/../other/env", "$$TRITON_MODEL_DIRECTORY2/env"]
)
def test_the_models_folder_cannot_be_left(path: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(InferenceError, match="is outside of the model's folder"):
        needed(tmp_path, {"EXECUTION_ENV_PATH": path})


def test_requirements_of_the_version_come_before_those_of_the_model(tmp_path: pathlib.Path) -> None:
    (tmp_path / "requirements.txt").touch()
    assert needed(tmp_path) == Required(file=tmp_path / "requirements.txt", wheels=None)
    (tmp_path / "1" / "requirements.txt").touch()
    assert needed(tmp_path) == Required(file=tmp_path / "1" / "requirements.txt", wheels=None)


def test_a_packed_environment_wins_over_requirements(tmp_path: pathlib.Path) -> None:
    (tmp_path / "requirements.txt").touch()
    assert isinstance(needed(tmp_path, {"EXECUTION_ENV_PATH": "/e"}), Packed)


def test_wheels_are_looked_for_beside_the_file_then_at_the_model_then_in_the_option(
    tmp_path: pathlib.Path,
) -> None:
    def wheels() -> pathlib.Path | None:
        spec = needed(tmp_path, options={"wheel-dir": "/wheels"})
        assert isinstance(spec, Required)
        return spec.wheels

    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "requirements.txt").touch()
    assert wheels() == pathlib.Path("/wheels")
    (tmp_path / "wheels").mkdir()
    assert wheels() == tmp_path / "wheels"
    (tmp_path / "1" / "wheels").mkdir()
    assert wheels() == tmp_path / "1" / "wheels"


def test_requirements_can_be_ignored_by_the_model_or_for_all(tmp_path: pathlib.Path) -> None:
    (tmp_path / "requirements.txt").touch()
    ignore = {"requirements": "ignore"}
    assert needed(tmp_path, {"naiad.requirements": "ignore"}) is None
    assert needed(tmp_path, options=ignore) is None
    assert needed(tmp_path, {"naiad.requirements": "build"}, ignore) is not None


def test_another_word_on_requirements_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InferenceError, match=r"naiad\.requirements is 'no'.*ignore"):
        needed(tmp_path, {"naiad.requirements": "no"})


def test_the_refusal_of_a_thread_names_the_settings_to_change(tmp_path: pathlib.Path) -> None:
    required = refused_in_thread("m", Required(file=tmp_path / "requirements.txt", wheels=None))
    assert 'naiad.host to "process"' in required.message
    assert 'naiad.requirements to "ignore"' in required.message
    packed = refused_in_thread("m", Packed(path=tmp_path))
    assert "remove EXECUTION_ENV_PATH" in packed.message


def test_the_requirements_of_all_models_are_for_those_that_bring_none(
    tmp_path: pathlib.Path,
) -> None:
    options = {"shared-requirements": "/tmp/all.txt", "wheel-dir": "/wheels"}
    shared = Required(
        file=pathlib.Path("/tmp/all.txt"), wheels=pathlib.Path("/wheels"), shared=True
    )
    assert needed(tmp_path, options=options) == shared
    assert shared.source == "--python-requirement"
    assert needed(tmp_path, {"naiad.requirements": "ignore"}, options) is None
    assert needed(tmp_path, {"EXECUTION_ENV_PATH": "/e"}, options) == Packed(
        path=pathlib.Path("/e")
    )
    (tmp_path / "requirements.txt").touch()
    own = needed(tmp_path, options=options)
    assert isinstance(own, Required)
    assert (own.file, own.shared) == (tmp_path / "requirements.txt", False)


def test_in_a_thread_the_requirements_of_all_models_are_named_by_their_option() -> None:
    shared = Required(file=pathlib.Path("/tmp/x/requirements.txt"), wheels=None, shared=True)
    message = refused_in_thread("m", shared).message
    assert "--python-requirement" in message
    assert "/tmp/x" not in message
