"""Checks model repositories: addresses that the server cannot read, and stores that would be read without credentials."""

import typing

from naiad_operator.api import store_address
from naiad_operator.api.manifests.unvalidated import entries, part
from naiad_operator.api.rules import model as model_rules
from naiad_operator.api.rules.cel import matches
from naiad_operator.check.finding import Findings, error, warning
from naiad_operator.versions import Version

_STORES_SINCE = Version(0, 2, 0)
"""Servers before read folders only."""
_VARIABLES = {"s3": "AWS_", "as": "AZURE_"}


def findings(predictor: typing.Any, path: str, version: Version | None) -> Findings:
    """What is wrong with the repositories of a predictor or a canary.

    Args:
        predictor: the part of the spec, with defaults.
        path: its path.
        version: the server's version; None when it is not known.
    """
    model = part(predictor, "model")
    several = model.get("repositories")
    sources = {f"{path}.model": model}
    if isinstance(several, list | tuple):
        sources |= {f"{path}.model.repositories[{index}]": one for index, one in enumerate(several)}
    for where, source in sources.items():
        uri = part(source).get("storageUri")
        if isinstance(uri, str):
            yield from _address(uri, source, where, version)
            yield from _credentials(uri, source, part(predictor), where)


def of_component(found: dict[str, typing.Any], path: str, version: Version | None) -> Findings:
    """What is wrong with the files of a transformer or an explainer.

    Args:
        found: the component, with defaults.
        path: its path.
        version: the version of the servers, whose image fetches them; None when it is not known.
    """
    uri = found.get("storageUri")
    if isinstance(uri, str):
        of_address = _address(uri, found, path, version)
        yield from (one for one in of_address if one.problem.message != store_address.doubt(uri))
        yield from _credentials(uri, found, found, path)


def _address(
    uri: str, source: dict[str, typing.Any], where: str, version: Version | None
) -> Findings:
    here = f"{where}.storageUri"
    scheme = uri.partition("://")[0]
    problem, doubt = store_address.problem(uri), store_address.doubt(uri)
    store = store_address.converted(uri)
    endpoint = part(source, "storage").get("endpoint")
    if problem:
        yield error(here, problem)
    elif not matches(uri, model_rules.URI_PATTERN):
        return  # an error of the rule
    elif endpoint and store is not None and store.endpoint:
        message = f"names an endpoint, and storage.endpoint names one as well: write {store.uri}"
        yield error(here, message)
    elif version is not None and version < _STORES_SINCE and scheme != "pvc":
        message = f"a server of version {version} reads folders only: write a newer image ({_STORES_SINCE} reads {scheme}://), or pvc://claim/path"
        yield error(here, message)
    elif doubt:
        yield warning(here, doubt)


def _credentials(
    uri: str, source: dict[str, typing.Any], predictor: dict[str, typing.Any], where: str
) -> Findings:
    """A store that no identity of a cloud opens: an endpoint of one's own, or Azure without a Secret or a ServiceAccount."""
    scheme = uri.partition("://")[0]
    storage = part(source, "storage")
    prefix = _VARIABLES.get(scheme, "")
    given = any(
        str(one.get("name", "")).startswith((prefix, "TRITON_CLOUD_CREDENTIAL_PATH"))
        for one in entries(predictor, "env")
    )
    if (
        not prefix
        or (scheme == "s3" and not storage.get("endpoint"))
        or any(storage.get(field) for field in ("secretName", "credentialFileKey"))
        or any(predictor.get(field) for field in ("envFrom", "serviceAccountName", "podTemplate"))
        or given
    ):
        return
    keys = (
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        if scheme == "s3"
        else "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY"
    )
    message = f"requests will have no credentials: unless the store is public, write storage.secretName, a Secret with {keys}"
    yield warning(f"{where}.storageUri", message)
