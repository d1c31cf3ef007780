"""The paths of the API are declared once: the fast lane, the application, the guard and the error messages agree on them."""

import re

import httpx
import pytest

from naiad.protocol.http.admin.app import build
from naiad.protocol.http.admin.errors import not_found
from naiad.protocol.http.asgi.services import LateServices, Services
from naiad.protocol.http.paths import API, ApiPath, category_of, find, without_base
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.restricted import Category
from tests.server.protocol.http.scripted_engine import ScriptedEngine, response

EXAMPLES = {"{model}": "m", "{version}": "1", "{repository}": "r", "{region}": "g"}


def example(path: ApiPath) -> str:
    """A path of a template."""
    text = path.template
    for name, value in EXAMPLES.items():
        text = text.replace(name, value)
    return text


@pytest.mark.parametrize("path", API, ids=lambda path: path.template)
def test_every_path_is_found_by_its_own_template(path: ApiPath) -> None:
    handler = find(example(path))
    assert handler is not None
    assert handler[0] is path
    assert set(handler[1]) == set(re.findall(r"{(\w+)}", path.template))


@pytest.mark.parametrize("path", API, ids=lambda path: path.template)
def test_the_fast_lane_handles_the_fast_paths_and_no_other(path: ApiPath) -> None:
    routes = Routes(ScriptedEngine(), HttpOptions())
    handler = routes.find(path.methods[0].encode(), example(path), {})
    assert (handler is not None) is path.fast


@pytest.mark.slow
async def test_the_application_handles_every_path_with_its_methods_only() -> None:
    engine = ScriptedEngine(model="m")
    engine.answer = response()
    transport = httpx.ASGITransport(
        build(LateServices(Services(engine, Routes(engine, HttpOptions()))))
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        for path in API:
            for method in ("GET", "POST", "PUT"):
                reply = await client.request(method, example(path), content=b"{}")
                assert (reply.status_code == 405) is (method not in path.methods), path
                missing = "this server has no path" in reply.text
                assert not missing, path


def test_every_path_under_v2_and_v1_can_be_restricted() -> None:
    for path in API:
        assert (path.category is not None) is path.template.startswith(("/v1", "/v2")), (
            path.template
        )


def test_a_path_that_is_suggested_for_an_unknown_one_exists() -> None:
    for wrong in ("/v2/health/liv", "/v2/models/m/infr", "/v2/repository/indx", "/dcs"):
        meant = not_found(wrong, ["m"]).partition("did you mean ")[2].partition("?")[0]
        assert meant
        assert find(meant) is not None


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("/v2", Category.METADATA),
        ("/v2/health/live", Category.HEALTH),
        ("/v2/health/ready", Category.HEALTH),
        ("/v2/models/m", Category.METADATA),
        ("/v2/models/m/versions/1", Category.METADATA),
        ("/v2/models/m/ready", Category.HEALTH),
        ("/v2/models/m/versions/1/ready", Category.HEALTH),
        ("/v2/models/m/config", Category.MODEL_CONFIG),
        ("/v2/models/m/versions/1/config", Category.MODEL_CONFIG),
        ("/v2/models/stats", Category.STATISTICS),
        ("/v2/models/m/stats", Category.STATISTICS),
        ("/v2/models/m/infer", Category.INFERENCE),
        ("/v2/models/m/versions/1/infer", Category.INFERENCE),
        ("/v2/models/m/generate", Category.INFERENCE),
        ("/v2/models/m/generate_stream", Category.INFERENCE),
        ("/v2/models/m/trace/setting", Category.TRACE),
        ("/v2/trace/setting", Category.TRACE),
        ("/v2/logging", Category.LOGGING),
        ("/v2/repository/index", Category.MODEL_REPOSITORY),
        ("/v2/repository/r/models/m/load", Category.MODEL_REPOSITORY),
        ("/v2/systemsharedmemory/status", Category.SHARED_MEMORY),
        ("/v2/cudasharedmemory/region/r/register", Category.SHARED_MEMORY),
        ("/v2/health/unknown", None),
        ("/v2/repository/unknown", None),
        ("/v2/models/m/versions/x/config", None),
        ("/docs", None),
        ("/openapi.json", None),
        ("/", None),
        ("/v2/", None),
        ("/v2/models/m/", None),
        ("/v2/models/m/config/", None),
        ("/v2/models/m/configs", None),
        ("/v2//models/m", None),
        ("/v2/models/a/b/config", None),
        ("/V2", None),
    ],
)
def test_every_path_is_of_tritons_category(path: str, category: Category | None) -> None:
    assert category_of(path) is category


@pytest.mark.parametrize(
    "character", ["\n", "\r", "\x00", "\v", "\f", "\x1f", "\x7f", "\x85", "\u2028", "\u2029"]
)
@pytest.mark.parametrize(
    "path", ["/v2", "/v2/models/m/config", "/v2/models/m/ready", "/v2/repository/index"]
)
def test_a_path_with_a_control_character_has_no_category(path: str, character: str) -> None:
    for spelled in (path + character, path.replace("/v2", "/v2" + character), character + path):
        assert category_of(spelled) is None


@pytest.mark.parametrize(
    ("base", "path", "inner"),
    [
        ("/a/b", "/a/b/v2/health/live", "/v2/health/live"),
        ("/a/b", "/a/b", "/"),
        ("/a/b", "/a/b/", "/"),
        ("/a/b", "/v2", "/v2"),
        ("/a/b", "/a/bc/v2", "/a/bc/v2"),
        ("/a/b", "/a/b/a/b/v2", "/a/b/v2"),
        ("/a/b", "/A/b/v2", "/A/b/v2"),
        ("", "/v2", "/v2"),
    ],
)
def test_the_base_path_is_removed_once(base: str, path: str, inner: str) -> None:
    assert without_base(base, path) == inner
