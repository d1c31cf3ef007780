"""Certificates made on the spot with the openssl command."""

import dataclasses
import pathlib
import subprocess


@dataclasses.dataclass(frozen=True)
class Certificates:
    """PEM files: an authority, and what it signed for the server (localhost, 127.0.0.1) and for a client."""

    authority: pathlib.Path
    server_cert: pathlib.Path
    server_key: pathlib.Path
    client_cert: pathlib.Path
    client_key: pathlib.Path


def make(folder: pathlib.Path) -> Certificates:
    """Make all of them in a folder."""
    authority_key = folder / "ca.key"
    authority = folder / "ca.pem"
    _openssl("req", "-x509", *_new_key(authority_key), "-out", str(authority), "-days", "2",
             "-subj", "/CN=Test authority")  # fmt: skip
    for name in ("server", "client"):
        key, request = folder / f"{name}.key", folder / f"{name}.csr"
        names = folder / f"{name}.names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl("req", *_new_key(key), "-out", str(request), "-subj", f"/CN={name}")
        _openssl("x509", "-req", "-in", str(request), "-CA", str(authority), "-CAkey", str(authority_key),
                 "-CAcreateserial", "-out", str(folder / f"{name}.pem"), "-days", "2",
                 "-extfile", str(names))  # fmt: skip
    return Certificates(
        authority=authority,
        server_cert=folder / "server.pem",
        server_key=folder / "server.key",
        client_cert=folder / "client.pem",
        client_key=folder / "client.key",
    )


def encrypted(key: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    """The same key behind a pass phrase."""
    _openssl("pkey", "-in", str(key), "-out", str(to), "-aes256", "-passout", "pass:secret")
    return to


def _new_key(path: pathlib.Path) -> tuple[str, ...]:
    return (
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        str(path),
    )


def _openssl(*arguments: str) -> None:
    subprocess.run(("openssl", *arguments), check=True, capture_output=True)
