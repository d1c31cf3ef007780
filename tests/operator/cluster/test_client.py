"""What the client makes of the API server's discovery, what it reads for it, and what a connection costs."""

import inspect
import json
from asyncio import sslproto

from typing_extensions import override

from naiad_operator.cluster.client import Client, open_session
from naiad_operator.cluster.credentials import Credentials, Endpoint

GROUPS = {
    "items": [
        {
            "metadata": {"name": "keda.sh"},
            "versions": [
                {
                    "version": "v1alpha1",
                    "resources": [
                        {"resource": "scaledobjects", "responseKind": {"kind": "ScaledObject"}},
                        {"resource": "unnamed"},
                    ],
                },
                {"version": "v1"},
            ],
        },
        {"metadata": {"name": "empty.example.com"}},
    ]
}


class Reading(Client):
    """A client whose API server serves one page under every path."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    @override
    async def get_text(self, path: str, *, accept: str = "") -> bytes:
        self.paths.append(path)
        return json.dumps(GROUPS).encode()


async def test_discovery_is_one_request_for_the_kinds_outside_the_core_group() -> None:
    client = Reading()
    assert await client.kinds() == {"keda.sh/v1alpha1/ScaledObject"}
    assert client.paths == ["/apis"]


async def test_a_connection_reserves_no_more_than_it_reads_at_once() -> None:
    """By default asyncio reserves 256 KiB for each: megabytes for the watches alone. That its protocol takes the size from there is not documented."""
    given = Credentials("", Endpoint(server="https://api.example.com"))
    async with open_session(given, agent="tests"):
        assert sslproto.SSLProtocol.max_size == 64 * 1024
    assert "bytearray(self.max_size)" in inspect.getsource(sslproto.SSLProtocol.__init__)
