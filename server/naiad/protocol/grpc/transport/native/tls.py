"""TLS of the native engine: HTTP/2 by ALPN (RFC 9113, section 9.2), clients' certificates, files that are read again when they change."""

import logging
import pathlib
import ssl

from naiad.protocol.grpc.settings import CannotServeError, TlsSettings
from naiad.protocol.grpc.transport import tls_files

ALPN = "h2"

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: none that RFC 9113 forbids (appendix A)."""

_log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


class Certificates:
    """The context of a port. Before each handshake it looks whether the files have changed; connections that are open keep what they have.

    Attributes:
        context: for `create_server`.

    Raises:
        CannotServeError: see `tls_files.read`.
    """

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls
        self._stamp = self._stamp_now()
        tls_files.read(tls)
        self.context = self._current = self._made()
        self.context.sni_callback = self._before_handshake

    def _made(self) -> ssl.SSLContext:
        context = tls_files.context_of(self._tls)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHERS)
        context.set_alpn_protocols([ALPN])
        if self._tls.mutual:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _before_handshake(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
    ) -> None:
        del name, context
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                tls_files.read(self._tls)
                self._current = self._made()
                _log.info("the certificates of gRPC have changed and are in use")
            except CannotServeError as error:
                _log.warning("the certificates of gRPC have changed and cannot be used, the old ones stay: %s", error)  # fmt: skip
        connection.context = self._current

    def _stamp_now(self) -> _Stamp:
        """What tells that a file is another one: its time, its size, its inode."""
        stamps = []
        for path in (self._tls.server_cert, self._tls.server_key, self._tls.root_cert):
            try:
                found = pathlib.Path(path).stat() if path else None
            except OSError:
                found = None
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino) if found else (0, 0, 0))
        return tuple(stamps)
