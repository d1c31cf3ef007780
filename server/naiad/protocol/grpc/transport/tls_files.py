"""Reads and checks the files of TLS (row 10.37), whichever engine serves them. Each error is one sentence that names the option."""

import pathlib
import ssl

import msgspec

from naiad.protocol.grpc.settings import CannotServeError, TlsSettings


class TlsFiles(msgspec.Struct, frozen=True):
    """What the files hold, PEM each. `root`: the authorities of clients' certificates, None without that option."""

    certificate: bytes
    key: bytes
    root: bytes | None


def read(tls: TlsSettings) -> TlsFiles:
    """Read the files.

    Raises:
        CannotServeError: a file is missing, cannot be read or is not PEM, the key does not belong to the certificate, or clients have to
            show certificates and there are no authorities to check them against.
    """
    certificate = _read(tls.server_cert, "--grpc-server-cert")
    key = _read(tls.server_key, "--grpc-server-key")
    root: bytes | None = None
    if tls.root_cert:
        root = _read(tls.root_cert, "--grpc-root-cert")
    elif tls.mutual:
        raise CannotServeError(
            "--grpc-use-ssl-mutual needs --grpc-root-cert: the PEM file with the authorities that sign the clients' certificates"
        )
    context_of(tls)
    return TlsFiles(certificate, key, root)


def _read(path: str, option: str) -> bytes:
    if not path:
        raise CannotServeError(f"--grpc-use-ssl needs {option}: the path of a PEM file")
    try:
        content = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise CannotServeError(f"{option}={path} cannot be read: {error.strerror}") from None
    if b"-----BEGIN " not in content:
        raise CannotServeError(
            f"{option}={path} is not a PEM file: it has no '-----BEGIN' line; convert it with openssl"
        )
    return content


def context_of(tls: TlsSettings) -> ssl.SSLContext:
    """A context that serves the certificate, and knows the clients' authorities.

    Raises:
        CannotServeError: the files do not fit together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.server_cert, tls.server_key, password=_no_password)
    except _EncryptedKeyError:
        raise CannotServeError(
            f"--grpc-server-key={tls.server_key} is encrypted: give a key without a pass phrase"
        ) from None
    except ssl.SSLError as error:
        raise CannotServeError(
            f"--grpc-server-cert={tls.server_cert} and --grpc-server-key={tls.server_key} are not a certificate and its private "
            f"key: {error.reason or error}"
        ) from None
    if tls.root_cert:
        try:
            context.load_verify_locations(tls.root_cert)
        except ssl.SSLError as error:
            raise CannotServeError(
                f"--grpc-root-cert={tls.root_cert} holds no certificate authority: {error.reason or error}"
            ) from None
    return context


class _EncryptedKeyError(Exception):
    pass


def _no_password() -> str:
    """Without this OpenSSL would ask on the terminal."""
    raise _EncryptedKeyError
