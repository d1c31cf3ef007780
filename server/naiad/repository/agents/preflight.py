"""What calling a repository agent for a load would say, as far as it is known without running foreign code: for `naiad check`."""

import collections.abc
import pathlib

from naiad.repository.agents.agent import AgentError, AgentModel
from naiad.repository.agents.catalog import AgentCatalog, failure
from naiad.repository.agents.checksum import CHECKSUM, ChecksumAgent


def agent_error(
    catalog: AgentCatalog,
    name: str,
    folder: pathlib.Path,
    parameters: collections.abc.Mapping[str, str],
) -> str:
    """Why an agent fails the load of a model; "" if it does not, or if only running it would show. Blocking: `checksum` reads files."""
    try:
        catalog.require(name)
        if name == CHECKSUM:
            model = AgentModel(name=folder.name, folder=folder, parameters=parameters)
            ChecksumAgent().load(model)
    except AgentError as error:
        return failure(name, error).message
    return ""
