"""What the add-ons are installed on: this project's cluster, or one of the user's."""

import pathlib
import typing
from collections.abc import Sequence


class Target(typing.Protocol):
    """A cluster that images and manifests can be put on."""

    @property
    def archives(self) -> pathlib.Path:
        """A folder for image archives."""

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """The output of a kubectl that may do everything.

        Raises:
            KubectlError: it failed; the message has what it printed.
        """

    def import_archive(self, archive: pathlib.Path) -> None:
        """Makes the images of an archive known to every node."""

    def image(self, name: str) -> str:
        """How the nodes call an image of this project that is on the cluster, e.g. `naiad-server:0.2.0`."""

    @property
    def chart_values(self) -> Sequence[str]:
        """Values that this project's chart needs on this cluster, like `serverImage=…`."""

    def adapted(self, manifest: str) -> str:
        """A manifest of this project as this cluster needs it."""

    def run(self, *command: str) -> list[str]:
        """The command line that runs a command that reaches the API server, with KUBECONFIG set."""
