"""The interface of a repository agent: a class with a method per action, and the model that each call is about (row 14.35).

`<repoagent-directory>/<name>/agent.py` defines such a class under the name `Agent`; a package offers one under the entry-point group
`naiad.repository_agents`. Each call runs in a thread of its own. Calls about different models may run at the same time, calls about one load
of a model never do. `load` may raise: that load fails, and nothing else. What other methods raise is logged.
"""

import os
import pathlib
import threading
import typing

from naiad.repository.temporary import TemporaryFolder


class AgentError(Exception):
    """Fails a load with this message, without the name of an exception in front of it."""


class AgentModel:
    """One load of a model, as one agent sees it: the same object from `load` to the last call.

    Args:
        name: the model.
        folder: holds its files, as the store or the agent before this one left them.
        parameters: of this agent in the config.

    Attributes:
        name: the same.
        folder: the same; not to be changed.
        parameters: the same.
        state: for the agent's own use.
        relocated: the folder that the agent put in place; None for the model's own.
    """

    def __init__(
        self, *, name: str, folder: pathlib.Path, parameters: typing.Mapping[str, str]
    ) -> None:
        self.name = name
        self.folder = folder
        self.parameters = parameters
        self.state: typing.Any = None
        self.relocated: pathlib.Path | None = None
        self._temporary: TemporaryFolder | None = None
        self._removed = False
        self._lock = threading.Lock()  # the server may remove the folder while an agent hangs

    def new_folder(self) -> pathlib.Path:
        """An empty folder for the agent's files, the same one in every call. The server removes it once the model is unloaded or failed to load.

        Only this user may read it: it may hold what the repository holds encrypted.
        """
        folder = self._temporary_folder() / "files" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def relocate(self, folder: "str | os.PathLike[str]") -> None:
        """Use another folder in place of the model's; only in `load`. The config stays the one of the repository.

        Args:
            folder: holds version folders; must stay as it is until the model is unloaded. From `new_folder`, or the agent's own.

        Raises:
            AgentError: it is not a folder.
        """
        path = pathlib.Path(folder).absolute()
        if not path.is_dir():
            raise AgentError(f"cannot relocate the model: {path} is not a folder")
        if path.name != self.name:
            # A model's folder has the model's name everywhere else.
            links = self._temporary_folder() / "link"
            links.mkdir(exist_ok=True)
            link = links / self.name
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            path = link
        self.relocated = path

    def remove_files(self) -> None:
        """Remove the temporary folder; the server calls it. Blocking."""
        with self._lock:
            self._removed = True
            if self._temporary is not None:
                self._temporary.remove()

    def _temporary_folder(self) -> pathlib.Path:
        with self._lock:
            if self._removed:
                raise AgentError(f"the load of model '{self.name}' has ended")
            if self._temporary is None:
                self._temporary = TemporaryFolder("agent")
            return self._temporary.path


class RepositoryAgent:
    """A repository agent. Every method does nothing by default.

    The methods about models are called in the order `load`, `load_complete`, `unload`, `unload_complete`, or `load`, `load_fail`.

    Attributes:
        timeout_seconds: how long `load` may take. The load of the model fails then, and the thread is abandoned.
    """

    timeout_seconds: float = 600.0

    def initialize(self) -> None:
        """Prepare; called once, before the first model that uses the agent. The load of every such model fails if it raises."""

    def finalize(self) -> None:
        """Clean up; called after the last model that used the agent. Another one makes another instance."""

    def load(self, model: AgentModel) -> None:
        """Check the model's files, or put others in place (`AgentModel.relocate`); raises to fail the load."""

    def load_complete(self, model: AgentModel) -> None:
        """The model serves."""

    def load_fail(self, model: AgentModel) -> None:
        """The model failed to load, because of its files, of this agent or of another one."""

    def unload(self, model: AgentModel) -> None:
        """The model takes no new requests and is about to be unloaded."""

    def unload_complete(self, model: AgentModel) -> None:
        """The model is unloaded."""
