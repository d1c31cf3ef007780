"""What the client makes of the API server's discovery and lists, and what it reads for them."""

import json
from typing import Any

from typing_extensions import override

from naiad_operator.api.manifests.unreadable import problem_of
from naiad_operator.cluster import reading
from naiad_operator.cluster.client import PAGE, Client
from naiad_operator.cluster.resource_ref import ResourceRef

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


class Listing(Client):
    """A client whose API server has some objects, by their names; those that are called deep have a thousand levels."""

    def __init__(self, *named: str) -> None:
        self.named = named
        self.unreadable = reading.Unreadable()
        self.limits: list[str] = []

    @override
    async def _request(self, method: str, path: str, **arguments: Any) -> bytes:
        query = arguments["query"]
        self.limits.append(query["limit"])
        first = int(query.get("continue", "0"))
        end = min(first + int(query["limit"]), len(self.named))
        large = '"' + "x" * 1_000_000 + '"'
        deep = '{"x":' * 1_000 + "1" + "}" * 1_000
        items = ",".join(
            f'{{"apiVersion":"v1","kind":"A","metadata":{{"name":"{name}","resourceVersion":"1","uid":"{number}"}},'
            f'"spec":{{"a":{deep if "deep" in name else large if "large" in name else 1}}}}}'
            for number, name in enumerate(self.named[first:end], first)
        )
        token = str(end) if end < len(self.named) else ""
        text = f'{{"apiVersion":"v1","items":[{items}],"kind":"AList","metadata":{{"continue":"{token}","resourceVersion":"9"}}}}'
        return text.encode()


async def test_a_page_with_an_object_that_is_too_deep_is_read_object_by_object() -> None:
    named = [f"a{number}" for number in range(3 * PAGE)]
    named[10] = "deep"
    client = Listing(*named)
    found: list[dict[str, Any]] = []
    async for items, version in client.pages(ResourceRef("v1", "as")):
        assert version == "9"
        found += items
    assert [item["metadata"]["name"] for item in found] == named
    assert [item["metadata"]["name"] for item in found if problem_of(item)] == ["deep"]
    assert client.limits == ["5", str(PAGE), *["1"] * PAGE, str(PAGE), str(PAGE)]
    assert client.unreadable.counts == {"as": 1}


async def test_pages_have_as_many_objects_as_fit_into_four_megabytes() -> None:
    named = [f"large{number}" for number in range(12)] + [f"a{number}" for number in range(100)]
    client = Listing(*named)
    found = [item async for items, _ in client.pages(ResourceRef("v1", "as")) for item in items]
    assert [item["metadata"]["name"] for item in found] == named
    assert client.limits == ["5", "4", "4", "5", "50", "50"]
