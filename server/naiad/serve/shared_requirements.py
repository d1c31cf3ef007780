"""`--python-requirement`: the packages for all Python models that bring no environment of their own, as a file for pip."""

import collections.abc

from naiad.environments.spec import REQUIREMENTS_FILE, SHARED_OPTION
from naiad.repository.temporary import TemporaryFolder

BackendConfig = collections.abc.Mapping[str, collections.abc.Mapping[str, str]]


class SharedRequirements:
    """A file of requirements in a temporary folder, which `close` removes; nothing without requirements.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, requirements: collections.abc.Sequence[str]) -> None:
        self._folder: TemporaryFolder | None = None
        if requirements:
            self._folder = TemporaryFolder("requirements")
            (self._folder.path / REQUIREMENTS_FILE).write_text("\n".join(requirements) + "\n")

    def added_to(self, options: BackendConfig) -> BackendConfig:
        """The options of the backends, with the file for all of them."""
        if self._folder is None:
            return options
        file = str(self._folder.path / REQUIREMENTS_FILE)
        return {**options, "": {**options.get("", {}), SHARED_OPTION: file}}

    def close(self) -> None:
        """Remove the file. Idempotent."""
        if self._folder is not None:
            self._folder.remove()
