"""A repository agent: serves a model whose version folders are packed into an archive.

The model's folder holds config.pbtxt and the archive, and the config names the agent:

    model_repository_agents { agents { name: "unpack" parameters { key: "archive" value: "model.tar.gz" } } }

Serve it with `--repoagent-directory=examples/repository_agents`.
"""

import pathlib
import tarfile

from typing_extensions import override

from naiad.repository.agents.agent import AgentError, AgentModel, RepositoryAgent

if not hasattr(tarfile, "data_filter"):
    # Python has its filters since 3.11.4; Debian 12 has 3.11.2, for which the server brings them.
    from backports import tarfile  # type: ignore[attr-defined,no-redef]

MOST_BYTES = 64 << 30
"""Of all unpacked files together: a small archive may hold very large ones."""


class Agent(RepositoryAgent):
    """Unpacks the archive into a folder that the server removes once the model is unloaded."""

    @override
    def load(self, model: AgentModel) -> None:
        name = model.parameters.get("archive", "model.tar.gz")
        folder = model.new_folder()
        try:
            with tarfile.open(model.folder / name) as archive:
                unpack(archive, folder)
        except (OSError, tarfile.TarError) as error:
            raise AgentError(f"cannot unpack {name} of model '{model.name}': {error}") from error
        model.relocate(folder)


def unpack(archive: tarfile.TarFile, folder: pathlib.Path) -> None:
    """Unpack an archive; its filter refuses names and links that leave the folder, and devices."""
    size = 0
    for member in archive:
        size += member.size
        if size > MOST_BYTES:
            raise AgentError(f"the files of the archive have more than {MOST_BYTES:,} bytes")
        archive.extract(member, folder, filter="data")
