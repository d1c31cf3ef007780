"""Sessions with credentials: what a connection costs, and client certificates that are replaced."""

import inspect
import json
import ssl
from asyncio import sslproto
from pathlib import Path

from aiohttp import web

from naiad_operator.cluster.credentials import Credentials, Endpoint, find
from naiad_operator.cluster.session import open_session
from tests.apiserver import certificates
from tests.operator.cluster.kubeconfigs import plugin


async def test_a_connection_reserves_no_more_than_it_reads_at_once() -> None:
    """By default asyncio reserves 256 KiB for each: megabytes for the watches alone. That its protocol takes the size from there is not documented."""
    access = Credentials("", Endpoint(server="https://api.example.com"))
    async with open_session(access, agent="tests"):
        assert sslproto.SSLProtocol.max_size == 64 * 1024
    assert "bytearray(self.max_size)" in inspect.getsource(sslproto.SSLProtocol.__init__)


async def test_a_client_certificate_of_an_exec_plugin_is_renewed(
    tmp_path: Path, authority: certificates.Certificates
) -> None:
    """New connections have the new one, and those with the old one are used for no other request."""
    accepting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca))
    accepting.load_cert_chain(*authority.serving)
    accepting.verify_mode = ssl.CERT_REQUIRED

    async def who(request: web.Request) -> web.Response:
        assert request.transport
        subject = request.transport.get_extra_info("peercert")["subject"]
        return web.Response(text=subject[0][0][1])

    application = web.Application()
    application.router.add_get("/", who)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=accepting)
    await site.start()
    address = f"https://127.0.0.1:{runner.addresses[0][1]}"

    def becomes(user: str) -> Path:
        files = zip(("clientCertificateData", "clientKeyData"), authority.client(user), strict=True)
        status = {name: file.read_text() for name, file in files}
        (tmp_path / "status.json").write_text(json.dumps({"status": status}))
        path = plugin(tmp_path, 'print(open("status.json").read())')
        as_one = json.loads(path.read_text())
        as_one["clusters"][0]["cluster"] = {
            "server": address,
            "certificate-authority": str(authority.ca),
        }
        path.write_text(json.dumps(as_one))
        return path

    access = await find(kubeconfig=str(becomes("first")))
    async with open_session(access, agent="tests") as session:
        for user in ("first", "second"):
            becomes(user)
            access.forget(access.endpoint)
            for _ in range(2):
                async with session.get(address) as response:
                    assert await response.text() == user
    await runner.cleanup()
    assert not list((tmp_path / "temporary").iterdir())
