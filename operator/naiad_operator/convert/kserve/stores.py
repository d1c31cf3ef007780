"""An address of KServe's with the Secrets by which KServe reads it, as storageUri and storage. Pure."""

import collections.abc
import typing

from naiad_operator.api import store_address
from naiad_operator.api.manifests.unvalidated import Fields
from naiad_operator.convert.kserve import secrets
from naiad_operator.convert.kserve.secrets import Manifests

Report = collections.abc.Callable[[str], None]


class Account(typing.NamedTuple):
    """The ServiceAccount with which a store is read.

    Attributes:
        name: None for the namespace's own, which is called default.
        namespace: of the service.
        others: the manifests of the same files, among them the account and its Secrets.
    """

    name: str | None
    namespace: str
    others: Manifests


def fields(
    uri: str,
    account: Account,
    report: Report,
    report_account: Report,
    *,
    field: str,
    is_repository: bool = True,
) -> Fields:
    """The fields storageUri and storage; {} for an address that a service cannot read, which is reported.

    Args:
        uri: the address.
        account: reads it.
        report: reports the address.
        report_account: reports the account.
        field: of the service that has both, with a dot behind it, for messages.
        is_repository: whether it must be a model repository.
    """
    store = store_address.converted(uri)
    problem = store_address.problem(store.uri if store is not None else uri)
    if store is None or problem:
        report(problem)
        return {}
    doubt = store_address.doubt(store.uri) if is_repository else ""
    for message in (store_address.dropped(uri), doubt):
        if message:
            report(message)
    storage = {
        **_of_account(store.uri, account, report_account, field),
        **store.fields.get("storage", {}),
    }
    return {"storageUri": store.uri} | ({"storage": storage} if storage else {})


def _of_account(uri: str, account: Account, report: Report, field: str) -> Fields:
    """KServe reads a store with the Secrets that are attached to the ServiceAccount, by default the one that is called default."""
    scheme = uri.partition("://")[0]
    if scheme == "pvc":
        return {}
    name = account.name
    found = secrets.storage(scheme, name or "default", account.namespace, account.others)
    if name is not None and not found:
        report(
            f"KServe also reads the store with the Secrets of ServiceAccount {name}, which has no effect here: unless {name} is an identity of the cloud, write its Secret in {field}storage.secretName, and its endpoint annotation in {field}storage.endpoint; with both in the files, convert does that"
        )
    return found
