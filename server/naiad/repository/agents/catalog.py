"""Finds repository agents by name: the server's own, those in `--repoagent-directory`, and those of installed packages. Blocking."""

import importlib.util
import pathlib
import re
import sys

from naiad.errors import InferenceError, invalid
from naiad.repository.agents.agent import AgentError, RepositoryAgent
from naiad.repository.agents.checksum import CHECKSUM, ChecksumAgent

GROUP = "naiad.repository_agents"
"""The entry-point group; the entry point's name is the agent's, its value the class."""

FILE = "agent.py"
CLASS = "Agent"
"""The name of the class in that file."""

_OWN: dict[str, type[RepositoryAgent]] = {CHECKSUM: ChecksumAgent}

_FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


class AgentCatalog:
    """The agents that there are.

    Args:
        directory: `--repoagent-directory`; need not exist.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def make(self, name: str) -> RepositoryAgent:
        """Make an agent: the code of one in the directory is read again.

        Raises:
            AgentError: there is none of that name, or it is not a RepositoryAgent.
            Exception: whatever its code raises.
        """
        kind = _OWN.get(name) or self._in_directory(name) or _installed(name)
        if kind is None:
            raise self._unknown(name)
        return kind()

    def require(self, name: str) -> None:
        """Check that there is an agent of that name, without running any code of it.

        Raises:
            AgentError: there is none.
        """
        import importlib.metadata  # noqa: PLC0415 - as below

        if name in _OWN or self._file(name) is not None:
            return
        if not importlib.metadata.entry_points(group=GROUP, name=name):
            raise self._unknown(name)

    def _unknown(self, name: str) -> AgentError:
        instead = (
            f"write {self._directory / name / FILE} (--repoagent-directory)"
            if _FOLDER_NAME.fullmatch(name)
            else f"choose a name of letters, digits, '_', '.' and '-', of a folder in {self._directory} (--repoagent-directory)"
        )
        return AgentError(
            f"unable to find repository agent '{name}': {instead}, or install a "
            f"package that has it as an entry point of {GROUP}; this server itself has {', '.join(_OWN)}"
            + self._library(name)
        )

    def _file(self, name: str) -> pathlib.Path | None:
        # A name is a config's: it never leads out of the directory.
        file = self._directory / name / FILE
        return file if _FOLDER_NAME.fullmatch(name) and file.is_file() else None

    def _in_directory(self, name: str) -> type[RepositoryAgent] | None:
        file = self._file(name)
        if file is None:
            return None
        folder = file.parent
        # As a package of its folder, so that it can import its own modules: `from . import keys`.
        module_name = f"naiad_repository_agent_{re.sub(r'[.-]', '_', name)}"
        for loaded in [*sys.modules]:
            if loaded == module_name or loaded.startswith(f"{module_name}."):
                del sys.modules[loaded]
        spec = importlib.util.spec_from_file_location(
            module_name, folder / FILE, submodule_search_locations=[str(folder)]
        )
        assert spec is not None, "a Python file"
        assert spec.loader is not None, "a Python file"
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
        return _checked(getattr(module, CLASS, None), f"{CLASS} in {folder / FILE}")

    def _library(self, name: str) -> str:
        library = self._directory / name / f"libtritonrepoagent_{name}.so"
        if not _FOLDER_NAME.fullmatch(name) or not library.exists():
            return ""
        return f". {library} is there, but this server cannot load agents for Triton's C interface"


def _installed(name: str) -> type[RepositoryAgent] | None:
    import importlib.metadata  # noqa: PLC0415 - takes 35 ms, which most servers do not need

    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        return _checked(entry.load(), f"the entry point {entry.value}")
    return None


def _checked(kind: object, what: str) -> type[RepositoryAgent]:
    if isinstance(kind, type) and issubclass(kind, RepositoryAgent):
        return kind
    raise AgentError(
        f"{what} must be a class that is derived from {RepositoryAgent.__module__}.{RepositoryAgent.__name__}"
    )


def failure(name: str, error: AgentError) -> InferenceError:
    """The error of a load that an agent refuses."""
    return invalid(f"repository agent '{name}': {error}")
