"""What kopf asks for and gets of services, from a server of the test's own."""

import collections.abc
import contextlib
import json

import aiohttp
import pytest
from aiohttp import web

from naiad_operator.cluster import session
from naiad_operator.cluster.credentials import Credentials, Endpoint
from naiad_operator.handlers.metadata import MetadataResponse, accept_metadata

Get = collections.abc.Callable[[str], contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]]  # fmt: skip

PATH = "/apis/serving.naiad.dev/v1alpha1/inferenceservices"
DEEP = '{"f:x":' * 5_000 + "{}" + "}" * 5_000


def partial(name: str, managed: str = "{}") -> str:
    return (
        f'{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"{name}","namespace":"team","uid":"uid-{name}",'
        f'"resourceVersion":"7","labels":{{"a":"b"}},"managedFields":[{{"fieldsV1":{managed}}}]}}}}'
    )


def seen(name: str) -> dict[str, object]:
    fields = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "7"}
    return {
        "apiVersion": "serving.naiad.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": fields,
    }


@contextlib.asynccontextmanager
async def asking(
    text: str, *, code: int = 200, kind: str = "application/json"
) -> collections.abc.AsyncIterator[tuple[Get, list[str]]]:
    """Requests of a session as kopf's, and what it accepts in each request; every response has this text."""
    accepted: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        accepted.append(request.headers["Accept"])
        return web.Response(text=text, status=code, content_type=kind)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    access = Credentials("", Endpoint(server=f"http://{host}:{port}", namespace="ours"))
    client = session.open_session(
        access, agent="test", middlewares=(accept_metadata,), response_class=MetadataResponse
    )
    try:
        async with client:
            yield lambda path: client.get(f"http://{host}:{port}{path}"), accepted
    finally:
        await runner.cleanup()


async def test_of_a_list_kopf_gets_names_and_versions_whatever_one_object_holds() -> None:
    items = f"{partial('a')},{partial('deep', DEEP)},{partial('b')}"
    text = f'{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}'
    async with asking(text) as (get, accepted), get(PATH) as response:
        page = await response.json()
    assert accepted == ["application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"]
    assert page["items"] == [seen(name) for name in ("a", "deep", "b")]
    assert page["metadata"] == {"resourceVersion": "9", "continue": ""}


async def test_of_a_watch_kopf_gets_every_line_in_the_same_form() -> None:
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}
    bookmark = '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}'
    events = [f'{{"type":"ADDED","object":{partial(*one)}}}' for one in (("a",), ("deep", DEEP))]
    text = "\n".join([*events, "<html>", bookmark, json.dumps(error)]) + "\n"
    async with asking(text) as (get, accepted), get(f"{PATH}?watch=true") as response:
        lines = [json.loads(line) async for line in response.content.iter_chunked(1 << 20)]
    assert accepted == ["application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"]
    assert lines[:2] == [{"type": "ADDED", "object": seen(name)} for name in ("a", "deep")]
    assert lines[2]["object"]["metadata"] == {"resourceVersion": "8"}
    assert lines[3] == error


async def test_other_responses_are_as_they_came() -> None:
    async with asking('{"items":[1]}') as (get, accepted), get("/apis") as response:
        assert await response.json() == {"items": [1]}
        assert accepted == ["*/*"]
    status = '{"kind":"Status","code":403}'
    async with asking(status, code=403) as (get, _), get(PATH) as response:
        assert await response.json() == {"kind": "Status", "code": 403}
    async with asking("<html>", kind="text/html") as (get, _), get(PATH) as response:
        with pytest.raises(aiohttp.ContentTypeError):
            await response.json()


async def test_a_list_without_items_is_an_error_after_which_kopf_tries_again() -> None:
    async with asking("[" * 9) as (get, _), get(PATH) as response:
        with pytest.raises(aiohttp.ClientPayloadError, match="not a list of services"):
            await response.json()
