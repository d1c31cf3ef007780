"""Which backend a model is for: backend, platform and model file, each from the others (rows 11.3-11.6). Pure."""

import collections.abc
from typing import Any

from naiad.config.backend_type import BackendType, BackendTypes, ModelFormat

ENSEMBLE = "ensemble"

Listing = collections.abc.Mapping[str, bool]
"""The entries of a version folder: name to whether it is a folder."""


def fits(platform: str, backend: BackendType | None) -> bool:
    """Whether a platform may stand beside a backend (row 11.3); a backend without a platform of its own takes any."""
    platforms = backend.platforms if backend is not None else ()
    return not platforms or platform in platforms


def autofill(message: Any, listing: Listing, backends: BackendTypes) -> None:
    """Fill in `backend`, `platform` and `default_model_filename` where they follow from the config or the version folder.

    Args:
        message: the ModelConfig, changed in place; its name must be set.
        listing: of the version folder.
        backends: in the order in which Triton asks: the first one that the config or the folder names wins.
    """
    match = _match(message, listing, backends)
    if match is not None:
        backend, model_format = match
        message.backend = message.backend or backend.name
        message.platform = message.platform or model_format.platform
        message.default_model_filename = message.default_model_filename or model_format.filename
    elif not _names_a_backend(message) and "." in message.name:
        message.backend = message.name.partition(".")[2]
        message.default_model_filename = f"model.{message.backend}"


def _names_a_backend(message: Any) -> bool:
    return bool(message.backend or message.platform or message.default_model_filename)


def _match(
    message: Any, listing: Listing, backends: BackendTypes
) -> tuple[BackendType, ModelFormat] | None:
    """The backend and format that the config names, or else those whose file is in the folder."""
    if message.backend:
        backend = backends.find(message.backend)
        if backend is None or not backend.formats:
            return None
        formats = (entry for entry in backend.formats if _is_meant(entry, message, listing))
        return backend, next(formats, backend.formats[0])
    if not _names_a_backend(message) and not listing:
        return None
    return next(
        (
            (backend, entry)
            for backend in backends
            for entry in backend.formats
            if _is_meant(entry, message, listing)
        ),
        None,
    )


def _is_meant(model_format: ModelFormat, message: Any, listing: Listing) -> bool:
    if message.platform:
        return message.platform in {model_format.platform, *model_format.aliases}
    if message.default_model_filename:
        return bool(message.default_model_filename == model_format.filename)
    return model_format.is_in(listing)
