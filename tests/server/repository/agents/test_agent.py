"""What an agent does to the files of a model."""

import pathlib

import pytest

from naiad.repository.agents.agent import AgentError, AgentModel


def model() -> AgentModel:
    return AgentModel(name="m", folder=pathlib.Path("/r/m"), parameters={})


def test_a_new_folder_is_there_until_it_is_removed() -> None:
    files = model()
    folder = files.new_folder()
    assert folder == files.new_folder()
    assert (folder.name, list(folder.iterdir())) == ("m", [])
    top = folder.parent.parent
    assert top.stat().st_mode & 0o777 == 0o700
    files.relocate(folder)
    assert files.relocated == folder
    files.remove_files()
    assert not top.exists()
    with pytest.raises(AgentError, match="the load of model 'm' has ended"):
        files.new_folder()


def test_a_folder_of_another_name_is_reached_by_the_models(tmp_path: pathlib.Path) -> None:
    files = model()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        files.relocate(tmp_path / name)
    assert files.relocated is not None
    assert files.relocated.name == "m"
    assert files.relocated.resolve() == tmp_path / "b"
    files.remove_files()
    assert (tmp_path / "b").is_dir()
    assert not files.relocated.is_symlink()


def test_the_server_uses_only_a_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    for path in ("file", "absent"):
        with pytest.raises(AgentError, match=f"{path} is not a folder"):
            model().relocate(tmp_path / path)
