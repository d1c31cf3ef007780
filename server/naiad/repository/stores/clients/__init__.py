"""The clients of the object stores, one file per kind of store; each imports its SDK when it is used first."""

from naiad import extras
from naiad.errors import invalid
from naiad.repository.stores.address import Address
from naiad.repository.stores.clients.snapshots import Folders
from naiad.repository.stores.objects import ObjectClient

_EXTRAS = {"s3": "s3", "gs": "gcs", "as": "azure", "hf": "huggingface"}
"""The extra of the distribution that brings the packages of a scheme."""


def connect(address: Address, folders: Folders) -> ObjectClient:
    """The client for an address. It sends no request yet.

    Args:
        address: of the repository.
        folders: of the cache, for clients that unpack what they download; the first exists when a request is sent.

    Raises:
        InferenceError: INVALID_ARG: its package is not installed.
    """
    try:
        match address.scheme:
            case "s3":
                from naiad.repository.stores.clients.s3 import S3Client  # noqa: PLC0415 - 0.3 s

                return S3Client(address)
            case "gs":
                from naiad.repository.stores.clients.gcs import GcsClient  # noqa: PLC0415 - 0.5 s

                return GcsClient(address)
            case "as":
                from naiad.repository.stores.clients.azure import AzureClient  # noqa: PLC0415 - 0.5 s

                return AzureClient(address)
            case "http" | "https":
                from naiad.repository.stores.clients.archive import ArchiveClient  # noqa: PLC0415

                return ArchiveClient(address, folders)
            case "oci":
                from naiad.repository.stores.clients.oci import OciClient  # noqa: PLC0415

                return OciClient(address, folders)
            case "hf":
                from naiad.repository.stores.clients.huggingface import (  # noqa: PLC0415 - 0.5 s
                    HuggingFaceClient,
                )

                return HuggingFaceClient(address)
            case _:
                raise AssertionError(address.scheme)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(address.scheme, "server")
        raise invalid(
            f"{address}: the package {error.name} is missing; install it with: {extras.install(extra)}"
        ) from None
