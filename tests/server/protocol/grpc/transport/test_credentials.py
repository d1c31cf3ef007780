"""Whatever is wrong with the TLS files is a sentence that names the option."""

import pathlib

import pytest

from naiad.protocol.grpc.settings import CannotServeError, TlsSettings
from naiad.protocol.grpc.transport.credentials import server_credentials
from tests.server.protocol.grpc import certificates
from tests.server.protocol.grpc.certificates import Certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def refused(**settings: object) -> str:
    tls = TlsSettings(
        **{
            name: value if isinstance(value, bool) else str(value)
            for name, value in settings.items()
        }  # type: ignore[arg-type] # one dictionary for all fields
    )
    with pytest.raises(CannotServeError) as caught:
        server_credentials(tls)
    return str(caught.value)


def test_files_that_fit_are_credentials(files: Certificates) -> None:
    tls = TlsSettings(
        server_cert=str(files.server_cert),
        server_key=str(files.server_key),
        root_cert=str(files.authority),
        mutual=True,
    )
    assert server_credentials(tls) is not None


def test_a_missing_file_is_named(files: Certificates, tmp_path: pathlib.Path) -> None:
    absent = tmp_path / "absent.pem"
    reason = refused(server_cert=absent, server_key=files.server_key)
    assert reason == f"--grpc-server-cert={absent} cannot be read: No such file or directory"
    reason = refused(server_cert=files.server_cert, server_key=absent)
    assert reason == f"--grpc-server-key={absent} cannot be read: No such file or directory"
    reason = refused(server_cert=files.server_cert, server_key=files.server_key, root_cert=absent)
    assert reason == f"--grpc-root-cert={absent} cannot be read: No such file or directory"


def test_a_folder_is_not_a_file(files: Certificates, tmp_path: pathlib.Path) -> None:
    reason = refused(server_cert=tmp_path, server_key=files.server_key)
    assert reason == f"--grpc-server-cert={tmp_path} cannot be read: Is a directory"


def test_options_that_were_not_given_are_named(files: Certificates) -> None:
    assert "--grpc-server-cert" in refused(server_cert="", server_key=files.server_key)
    assert "--grpc-server-key" in refused(server_cert=files.server_cert, server_key="")
    reason = refused(server_cert=files.server_cert, server_key=files.server_key, mutual=True)
    assert reason.startswith("--grpc-use-ssl-mutual needs --grpc-root-cert")


def test_a_file_that_is_not_pem_is_named(files: Certificates, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"\x30\x82")
    assert refused(server_cert=other, server_key=files.server_key).startswith(
        f"--grpc-server-cert={other} is not a PEM file"
    )


def test_a_key_of_another_certificate_is_found_out(files: Certificates) -> None:
    reason = refused(server_cert=files.server_cert, server_key=files.client_key)
    assert "--grpc-server-cert" in reason
    assert "--grpc-server-key" in reason
    assert "KEY_VALUES_MISMATCH" in reason


def test_an_encrypted_key_does_not_ask_on_the_terminal(
    files: Certificates, tmp_path: pathlib.Path
) -> None:
    key = certificates.encrypted(files.server_key, tmp_path / "encrypted.key")
    assert "is encrypted" in refused(server_cert=files.server_cert, server_key=key)


def test_an_authority_file_without_certificates_is_named(files: Certificates) -> None:
    reason = refused(
        server_cert=files.server_cert, server_key=files.server_key, root_cert=files.server_key
    )
    assert reason.startswith(f"--grpc-root-cert={files.server_key} holds no certificate authority")
