"""Where agents come from."""

import importlib
import pathlib
import re
import sys

import pytest

from naiad.repository.agents.agent import AgentError, RepositoryAgent
from naiad.repository.agents.catalog import GROUP, AgentCatalog
from naiad.repository.agents.checksum import ChecksumAgent

HEAD = "from naiad.repository.agents.agent import RepositoryAgent\n"


def write(folder: pathlib.Path, name: str, **files: str) -> None:
    (folder / name).mkdir(exist_ok=True)
    for file, text in files.items():
        (folder / name / f"{file}.py").write_text(text)


def test_the_servers_own_agent_comes_first(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "checksum", agent="raise ValueError")
    assert isinstance(AgentCatalog(tmp_path).make("checksum"), ChecksumAgent)


def test_an_agent_imports_the_modules_beside_it_and_is_read_again(tmp_path: pathlib.Path) -> None:
    code = f"{HEAD}from . import keys\nclass Agent(RepositoryAgent):\n    key = keys.KEY\n"
    write(tmp_path, "de-crypt.2", agent=code, keys="KEY = 1")
    catalog = AgentCatalog(tmp_path)
    assert vars(type(catalog.make("de-crypt.2")))["key"] == 1
    write(tmp_path, "de-crypt.2", keys="KEY = 20")
    assert vars(type(catalog.make("de-crypt.2")))["key"] == 20
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("absent", "write {}/absent/agent.py (--repoagent"),
        *(
            (name, "choose a name of letters, digits, '_', '.' and '-', of a folder in {} (")
            for name in ("../outside", "", ".", "a/b", "x" * 300, "nu\0ll")
        ),
    ],
)
def test_an_unknown_name_says_what_to_do(tmp_path: pathlib.Path, name: str, instead: str) -> None:
    write(tmp_path, "outside", agent=HEAD)
    catalog = AgentCatalog(tmp_path / "agents")
    expected = f"unable to find repository agent '{name}': {instead.format(tmp_path / 'agents')}"
    with pytest.raises(AgentError, match=re.escape(expected)) as error:
        catalog.make(name)
    assert "--repoagent-directory" in str(error.value)
    assert str(error.value).endswith("this server itself has checksum")


def test_a_library_for_triton_is_named(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "decrypt")
    (tmp_path / "decrypt" / "libtritonrepoagent_decrypt.so").touch()
    with pytest.raises(AgentError, match=r"libtritonrepoagent_decrypt\.so is there, but"):
        AgentCatalog(tmp_path).make("decrypt")


@pytest.mark.parametrize(
    "code", ["", "Agent = 3", "class Agent: pass", f"{HEAD}Agent = RepositoryAgent()"]
)
def test_a_class_of_another_kind_is_refused(tmp_path: pathlib.Path, code: str) -> None:
    write(tmp_path, "odd", agent=code)
    message = "must be a class that is derived from naiad.repository.agents.agent.RepositoryAgent"
    with pytest.raises(AgentError, match=message):
        AgentCatalog(tmp_path).make("odd")


def test_an_installed_package_brings_agents(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pack.py").write_text(f"{HEAD}class Decrypt(RepositoryAgent): pass\nOTHER = 3\n")
    metadata = tmp_path / "pack-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pack\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{GROUP}]\ndecrypt = pack:Decrypt\nother = pack:OTHER\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    catalog = AgentCatalog(tmp_path / "none")
    agent = catalog.make("decrypt")
    assert isinstance(agent, RepositoryAgent)
    assert type(agent).__name__ == "Decrypt"
    with pytest.raises(AgentError, match="the entry point pack:OTHER must be a class"):
        catalog.make("other")
