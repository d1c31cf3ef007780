"""How an extra of naiad is added to this installation: the command depends on what naiad was installed from.

The name is on no public index, so that `pip install 'naiad[…]'` alone would fail, or install a foreign package of that name.
Packaging tools note where a package came from (direct_url.json, PEP 610).
"""

import json
import pathlib
import typing
import urllib.parse
import urllib.request

_CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


def install(extra: str) -> str:
    """The command that adds an extra, with what has to be known to run it."""
    import importlib.metadata  # noqa: PLC0415 - 35 ms, for messages only

    try:
        origin = importlib.metadata.distribution("naiad").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return from_folder(_CHECKOUT, extra, editable=True)
    return f"pip install 'naiad[{extra}]'" if origin is None else from_origin(origin, extra)


def from_origin(origin: str, extra: str) -> str:
    """The command for an installation with this direct_url.json."""
    try:
        described: dict[str, typing.Any] = json.loads(origin)
        url = str(described["url"])
    except (ValueError, LookupError, TypeError):
        return from_checkout(extra)
    if "vcs_info" in described:
        source = described["vcs_info"]
        return f"pip install 'naiad[{extra}] @ {source.get('vcs', 'git')}+{url}@{source.get('commit_id', 'main')}'"
    path = _path(url)
    if "dir_info" in described and path is not None:
        return from_folder(path, extra, editable=bool(described["dir_info"].get("editable")))
    if path is not None and not path.exists():
        return from_checkout(extra, more=f"; this one was installed from {path}, which is gone")
    return f"pip install 'naiad[{extra}] @ {url}'"


def from_folder(folder: pathlib.Path, extra: str, *, editable: bool) -> str:
    """The command for an installation from a checkout."""
    if not (folder / "pyproject.toml").is_file():
        return from_checkout(extra)
    return f"pip install {'-e ' if editable else ''}'{folder}[{extra}]'"


def from_checkout(extra: str, *, more: str = "") -> str:
    """The command for an installation whose checkout is not known here."""
    return f"pip install '.[{extra}]' (in a checkout of naiad{more})"


def _path(url: str) -> pathlib.Path | None:
    parts = urllib.parse.urlsplit(url)
    return pathlib.Path(urllib.request.url2pathname(parts.path)) if parts.scheme == "file" else None
