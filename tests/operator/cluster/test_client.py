"""What the client makes of the API server's discovery, and what it reads for it."""

import json

from typing_extensions import override

from naiad_operator.cluster.client import Client

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
