"""What KServe copies to a transformer or an explainer before it starts, as the component's storageUri. Pure."""

import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries
from naiad_operator.builders import server
from naiad_operator.convert.kserve import stores
from naiad_operator.errors import Problem

_VARIABLE = "STORAGE_URI"
_ARCHIVES = (".tar", ".tgz", ".gz", ".zip")
"""The ends of names of files that KServe unpacks."""


class _Given(typing.NamedTuple):
    """An address.

    Attributes:
        place: its path in the manifest.
        uri: itself.
        folder: where the program finds its files.
    """

    place: str
    uri: str
    folder: str = server.FILES_FOLDER


def convert(
    rest: Fields, component: Fields, account: stores.Account, path: str, field: str
) -> list[Problem]:
    """Moves the addresses into the component, of which one is copied, and says what does not fit.

    Args:
        rest: the fields of KServe's component; a list of addresses is taken out.
        component: the fields of the service's, with the variables of the container; one that names an address is taken out.
        account: reads the store.
        path: of the component.
        field: of the container in it.
    """
    notes: list[Problem] = []
    given = [*_variables(component, f"{path}.{field}"), *_listed(rest, path)]
    if given and given[0].folder.rstrip("/") == server.FILES_FOLDER:
        notes += _convert(given.pop(0), component, account, path)
    for one in given:
        message = f"not converted: {one.uri}: {path}.storageUri is one address, whose files are in {server.FILES_FOLDER}: have an init container of {path}.podTemplate copy these to {one.folder}"
        notes.append(Problem(one.place, message, blocks=True))
    return notes


def _variables(component: Fields, container: str) -> list[_Given]:
    variables = entries(component, "env")
    found = [
        (index, one)
        for index, one in enumerate(variables)
        if one.get("name") == _VARIABLE and isinstance(one.get("value"), str)
    ]
    for _, one in found:
        variables.remove(one)
    if found:
        component["env"] = variables
        if not variables:
            del component["env"]
    return [_Given(f"{container}.env[{index}]", one["value"]) for index, one in found]


def _listed(rest: Fields, path: str) -> list[_Given]:
    listed = entries(rest, "storageUris")
    rest.pop("storageUris", None)
    return [
        _Given(
            f"{path}.storageUris[{index}]",
            str(one.get("uri")),
            str(one.get("mountPath") or server.FILES_FOLDER),
        )
        for index, one in enumerate(listed)
    ]


def _convert(given: _Given, component: Fields, account: stores.Account, path: str) -> list[Problem]:
    refused: list[str] = []
    of_account: list[str] = []
    made = stores.fields(
        given.uri,
        account,
        refused.append,
        of_account.append,
        field=f"{path}.",
        is_repository=False,
    )
    component |= made
    notes = [Problem(given.place, message, blocks=not made) for message in refused]
    notes += [Problem(f"{path}.serviceAccountName", message) for message in of_account]
    if given.uri.lower().endswith(_ARCHIVES):
        message = f"KServe unpacks {given.uri}, and nothing does here: the program finds the archive in {server.FILES_FOLDER}"
        notes.append(Problem(given.place, message))
    return notes
