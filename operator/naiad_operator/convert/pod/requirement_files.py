"""Files of Python packages that a script installs before it starts the server, where a pod of a service has them."""

import collections.abc
import pathlib

from naiad_operator.api.manifests.unvalidated import entries, part
from naiad_operator.builders import server
from naiad_operator.convert.draft import Draft

_FILE = "-r "


def convert(
    requirements: collections.abc.Sequence[str],
    addresses: collections.abc.Sequence[str],
    draft: Draft,
) -> None:
    """Writes the packages into the draft; a file that the server's container will not have is reported.

    Args:
        requirements: the packages, and the files as `-r PATH`.
        addresses: the model repositories of the container.
        draft: the service, whose model is known already.
    """
    kept = []
    for one in requirements:
        if not one.startswith(_FILE):
            kept.append(one)
            continue
        path = pathlib.PurePosixPath(one.removeprefix(_FILE))
        found = _place(path, addresses, draft)
        if found is not None:
            kept.append(f"{_FILE}{found}")
            continue
        message = f"not converted: pip install -r {path}: the pods will not have this file: write its packages in predictor.model.pythonRequirements"
        draft.of_container(
            "args" if draft.container.get("args") else "command", message, blocks=True
        )
    if kept:
        draft.predictor["model"]["pythonRequirements"] = kept


def _place(
    path: pathlib.PurePosixPath, addresses: collections.abc.Sequence[str], draft: Draft
) -> str | None:
    """Where the server finds a file of the old container; None where it does not."""
    model = part(draft.predictor, "model")
    volume, image = part(model, "volume"), part(model, "image")
    if volume and path.is_relative_to(str(volume.get("mountPath", "/mnt/models"))):
        return str(path)
    mounts = [str(one.get("mountPath")) for one in entries(draft.container, "volumeMounts")]
    if any(path.is_relative_to(mount) for mount in mounts):
        return str(path)  # it stays, in podTemplate
    if "reference" in image:
        return f"{server.IMAGE_FOLDER}{path}"
    uri = str(model.get("storageUri"))
    if uri.startswith("pvc://") and len(addresses) == 1 and path.is_relative_to(addresses[0]):
        inside = uri.removeprefix("pvc://").partition("/")[2].strip("/")
        folder = pathlib.PurePosixPath(server.REPOSITORIES_FOLDER, "0", inside)
        return str(folder / path.relative_to(addresses[0]))
    return None
