"""What the collector makes of an API server's responses: large logs, pods that misbehave, things that cannot be read."""

import collections.abc
import contextlib
import typing

import aiohttp
from aiohttp import web

from naiad_operator.cluster import client
from naiad_operator.report import collector, layout

S = "zQ8-unknown-Form"
_NOT_FOUND = {"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404}

POD: dict[str, typing.Any] = {
    "metadata": {"name": "demo-1", "namespace": "prod", "creationTimestamp": "2026-11-23T15:00:00Z"},
    "spec": {"containers": [{"name": "server", "env": [{"name": "API_TOKEN", "value": S}], "ports": [{"name": "metrics", "containerPort": 8002}]}]},
    "status": {
        "phase": "Running",
        "containerStatuses": [{"name": "server", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}, "restartCount": 1}],
    },
}  # fmt: skip
SERVICE = {"metadata": {"name": "demo", "namespace": "prod", "generation": 1}, "spec": {}}
PODS, LOGS = "/api/v1/namespaces/prod/pods", "/api/v1/namespaces/prod/pods/demo-1/log"
PROXY = "/api/v1/namespaces/prod/pods/demo-1:8002/proxy"

Answer = collections.abc.Callable[[web.BaseRequest], web.StreamResponse]


class ApiServer:
    """Serves what a test gives it by path; everything else does not exist."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {
            "/version": lambda _: web.json_response({"gitVersion": "v1.36.3"}),
            "/apis": lambda _: web.json_response({"items": []}),
            "/apis/serving.naiad.dev/v1alpha1/namespaces/prod/inferenceservices": lambda _: web.json_response({"items": [SERVICE]}),
            PODS: lambda _: web.json_response({"items": [POD]}),
        }  # fmt: skip
        self.paths: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.paths.append(request.path)
        answer = self.answers.get(request.path)
        return answer(request) if answer else web.json_response(_NOT_FOUND, status=404)


@contextlib.asynccontextmanager
async def serving(api: ApiServer) -> collections.abc.AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(api.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def collected(api: ApiServer, **request: typing.Any) -> collector.Collected:
    async with serving(api) as server, aiohttp.ClientSession() as session:
        one = client.Client(
            session, server=server, manager="m", timeouts=client.Timeouts(request=5)
        )
        made = collector.Request(namespace="prod", **request)
        return await collector.collect(one, made, lambda _: None)


def text(content: str) -> Answer:
    return lambda _: web.Response(text=content)


async def test_logs_of_both_runs_without_what_a_manifest_announces() -> None:
    api = ApiServer()

    def log(request: web.BaseRequest) -> web.Response:
        assert request.query["tailLines"] == "7"
        return web.Response(
            text=f"previous={request.query['previous']} {request.query['container']} {S}\n"
        )

    api.answers[LOGS] = log
    found = await collected(api, log_lines=7)
    folder = "namespaces/prod/logs/demo-1"
    assert found.files[f"{folder}/server.log"] == "previous=false server ***\n"
    assert found.files[f"{folder}/server.previous.log"] == "previous=true server ***\n"


async def test_a_credential_of_one_manifest_is_masked_in_the_others() -> None:
    api = ApiServer()
    event = {"metadata": {"name": "e", "namespace": "prod"}, "involvedObject": {"name": "demo-1"}, "message": f"exec {S} failed"}  # fmt: skip
    api.answers["/api/v1/namespaces/prod/events"] = lambda _: web.json_response({"items": [event]})
    events = (await collected(api)).snapshot["namespaces/prod", "events"]
    assert [one["message"] for one in events] == ["exec *** failed"]


async def test_of_a_large_log_the_end_is_kept() -> None:
    api = ApiServer()
    api.answers[LOGS] = text("".join(f"line {number}\n" for number in range(100_000)))
    log = (await collected(api, log_bytes=1000)).files["namespaces/prod/logs/demo-1/server.log"]
    first, second, *_, last, _ = log.split("\n")
    assert first == "(only the last 1000 bytes)"
    assert second.startswith("line 99"), "whole lines"
    assert last == "line 99999"
    assert len(log) < 1100


async def test_a_page_of_a_pod_with_an_error_is_kept_and_is_limited() -> None:
    api = ApiServer()
    api.answers[f"{PROXY}/status"] = lambda _: web.Response(text=f"no models yet {S}", status=503)
    api.answers[f"{PROXY}/metrics"] = text("m 1\n" * 1_000_000)
    found = await collected(api)
    folder = "namespaces/prod/pages/demo-1"
    assert found.files[f"{folder}/status.txt"] == "HTTP 503\nno models yet ***"
    assert found.files[f"{folder}/metrics.txt"].startswith("HTTP 200, only the first")
    assert len(found.files[f"{folder}/metrics.txt"]) < 1.1 * (1 << 20)


async def test_a_redirect_is_not_followed() -> None:
    """The target would get the credentials of the person."""
    api = ApiServer()

    def redirect(_: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "/stolen"})

    api.answers[f"{PROXY}/status"] = redirect
    api.answers[PODS.replace("pods", "services")] = redirect
    found = await collected(api)
    assert "/stolen" not in api.paths
    assert found.files["namespaces/prod/pages/demo-1/status.txt"].startswith("HTTP 302")
    assert any("a redirect to /stolen" in line for line in found.missing)


async def test_what_cannot_be_read_is_listed_once_and_the_rest_is_there() -> None:
    api = ApiServer()
    hung = "/api/v1/namespaces/prod/events"
    api.answers[hung] = lambda _: web.json_response(
        {"kind": "Status", "reason": "Forbidden", "message": f"no: token={S}"}, status=403
    )
    operator = {"metadata": {"name": "naiad", "namespace": "prod"}, "spec": {"template": {"spec": {"containers": []}}}}  # fmt: skip
    api.answers["/apis/apps/v1/deployments"] = lambda _: web.json_response({"items": [operator]})
    found = await collected(api)
    assert api.paths.count(hung) == 2, "of the services, and of the operator"
    assert found.snapshot["namespaces/prod", "pods"][0]["kind"] == "Pod"
    assert [line for line in found.missing if "events" in line] == [
        "cannot list events prod: no: token=***"
    ]
    files = layout.files(found, own_version="0.2.0", time="now")
    assert "the API server does not serve" in files["not-collected.txt"]
    assert "keda.sh/v1alpha1/ScaledObject" in files["not-collected.txt"]


async def test_of_many_pods_those_that_are_not_ready_are_read_first() -> None:
    api = ApiServer()
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    pods = [
        {**POD, "metadata": {**POD["metadata"], "name": f"demo-{number}"}, "status": {**POD["status"], **(ready if number != 3 else {})}}
        for number in range(1, 6)
    ]  # fmt: skip
    api.answers[PODS] = lambda _: web.json_response({"items": pods})
    found = await collected(api, pods=1)
    assert {path.split("/")[6] for path in api.paths if path.endswith("/log")} == {"demo-3"}
    left_out = [line for line in found.missing if "--max-pods" in line]
    assert len(left_out) == 4
