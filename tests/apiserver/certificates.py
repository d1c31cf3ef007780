"""What an API server of the tests proves itself with: one CA, its serving certificate, client certificates, a token key.

Made with the openssl command (EC keys; 0.2 s in all). Everything is for 127.0.0.1 and lives as long as the tests.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_DAYS = "2"
_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificates:
    """The folder they lie in, and their names there."""

    folder: Path

    @property
    def ca(self) -> Path:
        """The authority that signs servers and clients."""
        return self.folder / "ca.crt"

    @property
    def ca_key(self) -> Path:
        """The authority's key."""
        return self.folder / "ca.key"

    @property
    def serving(self) -> tuple[Path, Path]:
        """Certificate and key of the API server."""
        return self.folder / "serving.crt", self.folder / "serving.key"

    @property
    def service_account_key(self) -> Path:
        """The key that signs service-account tokens (RSA: every version of Kubernetes takes it)."""
        return self.folder / "service-account.key"

    def client(self, user: str) -> tuple[Path, Path]:
        """A client certificate for `user`; made when first asked for."""
        certificate, key = self.folder / f"client-{user}.crt", self.folder / f"client-{user}.key"
        if not certificate.exists():
            _signed(self, certificate, key, subject=f"/CN={user}", usage="clientAuth")
        return certificate, key


def make(folder: Path) -> Certificates:
    """Makes the authority, the serving certificate and the token key in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    certificates = Certificates(folder)
    extensions = ("-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature")
    authority = (
        "-keyout",
        str(certificates.ca_key),
        "-out",
        str(certificates.ca),
        "-subj",
        "/CN=naiad-tests",
    )
    _openssl("req", "-x509", *_EC, *authority, "-days", _DAYS, *extensions)
    certificate, key = certificates.serving
    names = "IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"
    _signed(
        certificates,
        certificate,
        key,
        subject="/CN=kube-apiserver",
        usage="serverAuth",
        names=names,
    )
    _openssl("genrsa", "-out", str(certificates.service_account_key), "2048")
    return certificates


def _signed(
    certificates: Certificates,
    certificate: Path,
    key: Path,
    *,
    subject: str,
    usage: str,
    names: str = "",
) -> None:
    extensions = ["-addext", f"extendedKeyUsage={usage}"]
    if names:
        extensions += ["-addext", f"subjectAltName={names}"]
    authority = ("-CA", str(certificates.ca), "-CAkey", str(certificates.ca_key))
    files = ("-keyout", str(key), "-out", str(certificate))
    _openssl(
        "req", "-x509", *_EC, *authority, *files, "-subj", subject, "-days", _DAYS, *extensions
    )


def _openssl(*arguments: str) -> None:
    try:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError(
            "the tests against a real API server need the openssl command; on Debian: apt-get install openssl"
        ) from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"openssl {' '.join(arguments)} failed: {error.stderr}") from None
