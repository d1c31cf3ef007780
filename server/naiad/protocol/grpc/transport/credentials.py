"""Makes grpc's server credentials of TLS files (row 10.37).

grpc itself starts with files that do not fit together and reports that only in its own log, or in the clients' logs. OpenSSL, through the
standard library, reads them first.
"""

import grpc

from naiad.protocol.grpc.settings import TlsSettings
from naiad.protocol.grpc.transport import tls_files


def server_credentials(tls: TlsSettings) -> grpc.ServerCredentials:
    """Credentials that serve the certificate, and ask clients for theirs when the settings say so.

    Raises:
        CannotServeError: see `tls_files.read`.
    """
    files = tls_files.read(tls)
    return grpc.ssl_server_credentials(
        ((files.key, files.certificate),),
        root_certificates=files.root,
        require_client_auth=tls.mutual,
    )
