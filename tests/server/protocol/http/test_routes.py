import pathlib

import pytest

from naiad.core.clock import ManualClock
from naiad.core.request import LATEST
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.inference import InferRoute
from naiad.protocol.http.message import Headers, HttpReply, HttpRequest
from naiad.protocol.http.routes import MAX_INPUT_SIZE, HttpOptions, Routes, model_version
from naiad.protocol.restricted import Category, Restriction
from naiad.protocol.tokens import UNAUTHENTICATED, TokenFile
from tests.server.protocol.http.scripted_engine import (
    Replies,
    ScriptedEngine,
    error_of,
    header_of,
    response,
)

INFER = b'{"inputs":[]}'


def engine() -> ScriptedEngine:
    scripted = ScriptedEngine()
    scripted.answer = response()
    return scripted


def ask(
    routes: Routes, method: bytes, path: str, headers: Headers | None = None, body: bytes = b""
) -> HttpReply:
    handler = routes.find(method, path, headers or {})
    assert handler is not None
    replies = Replies()
    handler(HttpRequest(method, path, headers or {}, body), replies)
    return replies.only


@pytest.mark.parametrize(
    ("path", "model", "version"),
    [
        ("/v2/models/m/infer", "m", LATEST),
        ("/v2/models/m/versions/3/infer", "m", 3),
        ("/v2/models/m/versions/007/infer", "m", 7),
        ("/v2/models/m-1.2 ü:x/infer", "m-1.2 ü:x", LATEST),
        ("/v2/models/versions/versions/1/infer", "versions", 1),
        ("/v2/models/stats/infer", "stats", LATEST),
    ],
)
def test_an_infer_path_names_a_model_and_perhaps_a_version(
    path: str, model: str, version: int
) -> None:
    scripted = ScriptedEngine(model=model)
    scripted.answer = response()
    assert ask(Routes(scripted, HttpOptions()), b"POST", path, body=INFER).status == 200
    assert scripted.asked == [(model, version)]
    assert (scripted.request.model_name, scripted.request.model_version) == (model, version)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/models/m", "/v2/models/m/", "/v2/models/m/infer/", "/v2/models//infer", "/v2/models/a/b/infer", "/v2", "/",
        "/v2/models/m/versions/x/infer", "/v2/models/m/versions/-1/infer", "/v2/models/m/versions//infer",
        "/v2/models/m/versions/\u0661/infer", "/v2/health", "/v2/health/live/", "/v2/models/m/generate/", "/v2/models/m/config",
    ],
)  # fmt: skip
def test_every_other_path_is_the_control_planes(path: str) -> None:
    assert Routes(engine(), HttpOptions()).find(b"POST", path, {}) is None


@pytest.mark.parametrize("action", ["generate", "generate_stream"])
@pytest.mark.parametrize(("segment", "version"), [("", LATEST), ("/versions/3", 3)])
def test_generate_paths_are_of_the_fast_lane_and_of_the_inference_category(
    action: str, segment: str, version: int
) -> None:
    scripted = engine()
    scripted.answer = response()
    path = f"/v2/models/m{segment}/{action}"
    routes = Routes(scripted, HttpOptions())
    assert ask(routes, b"POST", path, body=b"{}").status == 200
    assert scripted.request.model_version == version
    assert ask(routes, b"GET", path).status == 405
    key = Restriction(header="key", value="v")
    guarded = Routes(scripted, HttpOptions(restrictions={Category.INFERENCE: key}))
    assert ask(guarded, b"POST", path, body=b"{}").status == 403


def test_a_path_is_parsed_once_and_a_flood_of_paths_is_forgotten() -> None:
    routes = Routes(engine(), HttpOptions())
    first = routes.find(b"POST", "/v2/models/m/infer", {})
    assert routes.find(b"POST", "/v2/models/m/infer", {}) is first
    for number in range(5000):
        routes.find(b"POST", f"/v2/models/m{number}/infer", {})
        routes.find(b"POST", f"/unknown/{number}", {})
    assert routes.known <= 1024


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"DELETE", b"HEAD", b"UNKNOWN"])
def test_a_wrong_verb_on_infer_is_405(method: bytes) -> None:
    reply = ask(Routes(engine(), HttpOptions()), method, "/v2/models/m/infer")
    assert (reply.status, error_of(reply)) == (405, "Method Not Allowed: send a POST")
    assert header_of(reply, b"Allow") == b"OPTIONS, POST"


def test_a_wrong_verb_on_health_is_405() -> None:
    reply = ask(Routes(engine(), HttpOptions()), b"POST", "/v2/health/live")
    assert (reply.status, error_of(reply)) == (405, "Method Not Allowed: send a GET")
    assert header_of(reply, b"Allow") == b"GET, HEAD, OPTIONS"


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_health_answers_get_and_head(method: bytes) -> None:
    assert ask(Routes(engine(), HttpOptions()), method, "/v2/health/live").status == 200


def test_options_says_which_verbs_there_are() -> None:
    reply = ask(Routes(engine(), HttpOptions()), b"OPTIONS", "/v2/models/m/infer")
    assert (reply.status, reply.body) == (204, ())
    assert header_of(reply, b"Allow") == b"OPTIONS, POST"


@pytest.mark.parametrize(
    "path", ["/v2/health/ready", "/v2/models/m/ready", "/v2/models/m/versions/2/ready"]
)
async def test_readiness_is_answered_by_the_fast_lane(path: str) -> None:
    found = Routes(engine(), HttpOptions()).find(b"GET", path, {})
    assert found is not None
    replies = Replies()
    found(HttpRequest(b"GET", path, {}, b""), replies)
    assert (await replies.arrived()).status == 200


@pytest.mark.parametrize("version", ["9" * 19, "9" * 20, "9" * 5000])
@pytest.mark.parametrize(("action", "method"), [("infer", b"POST"), ("ready", b"GET")])
def test_a_version_that_is_too_large_is_400(version: str, action: str, method: bytes) -> None:
    path = f"/v2/models/m/versions/{version}/{action}"
    reply = ask(Routes(engine(), HttpOptions()), method, path)
    assert reply.status == 400
    assert "failed to get model version" in error_of(reply)


def test_the_largest_version_is_a_version() -> None:
    assert model_version(str(2**63 - 1)) == 2**63 - 1
    assert model_version("") == LATEST
    with pytest.raises(InferenceError) as caught:
        model_version(str(2**63))
    assert caught.value.code is ErrorCode.INVALID_ARG


def limit(path: str, **headers: bytes) -> int:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return Routes(engine(), HttpOptions(max_input_size=10_000)).body_limit(path, named)


def test_a_body_may_be_as_long_as_the_input_size() -> None:
    assert limit("/v2/models/m/infer") == 10_000
    assert limit("/v2/repository/index") == 10_000
    assert limit("/v2/models/m/infer", inference_header_content_length=b"0") == 10_000
    assert limit("/v2/models/m/infer", inference_header_content_length=b"x") == 10_000
    assert limit("/v2/models/m/infer", content_encoding=b"identity") == 10_000
    assert HttpOptions().max_input_size == MAX_INPUT_SIZE


def test_binary_tensors_are_bounded_by_what_a_length_can_say() -> None:
    assert limit("/v2/models/m/infer", inference_header_content_length=b"100") == 2**31 - 1
    assert limit("/v2/repository/index", inference_header_content_length=b"100") == 10_000


@pytest.mark.parametrize(
    ("path", "headers", "size", "message"),
    [
        ("/v2/models/m/infer", {}, 11, "request JSON size of 11 bytes exceeds the maximum allowed input size of 10 bytes"),
        ("/v2/models/m/generate", {}, None, "request JSON size exceeds the maximum allowed input size of 10 bytes"),
        ("/v2/models/m/infer", {b"inference-header-content-length": b"0"}, 11, "Request body of 11 bytes exceeds the maximum allowed value of 10 bytes"),
        ("/v2/repository/index", {}, None, "Request body exceeds the maximum allowed value of 10 bytes"),
    ],
)  # fmt: skip
def test_a_body_that_is_too_long_is_refused_in_tritons_words(
    path: str, headers: Headers, size: int | None, message: str
) -> None:
    routes = Routes(engine(), HttpOptions(max_input_size=10))
    assert routes.too_large(path, headers, size) == (
        message + ". Use --http-max-input-size to increase the limit."
    )


def test_a_compressed_body_may_be_a_little_longer_than_what_it_holds() -> None:
    for header in (b"0", b"100"):
        limited = limit(
            "/v2/models/m/infer", content_encoding=b"gzip", inference_header_content_length=header
        )
        assert 10_000 < limited < 20_000


def test_a_restricted_category_asks_for_its_header_before_the_verb() -> None:
    secret = Restriction(header="Admin-Key", value="hush")
    routes = Routes(engine(), HttpOptions(restrictions={Category.INFERENCE: secret}))
    for method in (b"POST", b"GET", b"OPTIONS"):
        for headers in ({}, {b"admin-key": b"wrong"}):
            reply = ask(routes, method, "/v2/models/m/infer", headers, INFER)
            assert reply.status == 403
            assert "This API is restricted, expecting header 'Admin-Key'" in error_of(reply)
    right = {b"admin-key": b"hush"}
    assert ask(routes, b"POST", "/v2/models/m/infer", right, INFER).status == 200
    assert ask(routes, b"GET", "/v2/models/m/infer", right).status == 405
    assert ask(routes, b"GET", "/v2/health/live").status == 200


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"])
def test_health_is_a_category_of_its_own(path: str) -> None:
    secret = Restriction(header="k", value="v")
    routes = Routes(engine(), HttpOptions(restrictions={Category.HEALTH: secret}))
    assert ask(routes, b"GET", path).status == 403
    assert ask(routes, b"POST", "/v2/models/m/infer", body=INFER).status == 200


def test_an_invalid_pattern_is_refused_with_its_option() -> None:
    with pytest.raises(ValueError, match="--http-header-forward-pattern"):
        Routes(engine(), HttpOptions(header_forward_pattern="("))


def test_headers_are_forwarded_whatever_their_case() -> None:
    scripted = engine()
    routes = Routes(scripted, HttpOptions(header_forward_pattern="^X-User$"))
    ask(routes, b"POST", "/v2/models/m/infer", {b"x-user": b"ann"}, INFER)
    assert scripted.request.parameters == {"x-user": "ann"}


def guarded(tmp_path: pathlib.Path) -> Routes:
    file = tmp_path / "token"
    file.write_text("secret")
    return Routes(engine(), HttpOptions(tokens=TokenFile(str(file), clock=ManualClock())))


def test_inference_asks_for_a_token(tmp_path: pathlib.Path) -> None:
    routes = guarded(tmp_path)
    refused = ask(routes, b"POST", "/v2/models/m/infer", body=INFER)
    assert (refused.status, error_of(refused)) == (401, UNAUTHENTICATED)
    assert header_of(refused, b"WWW-Authenticate") == b"Bearer"
    for sent in (b"secret", b"Bearer secret"):
        headers = {b"authorization": sent}
        assert ask(routes, b"POST", "/v2/models/m/infer", headers, INFER).status == 200
    assert ask(routes, b"POST", "/v2/models/m/infer", {b"authorization": b"x"}, INFER).status == 401


def test_without_a_token_nothing_is_learnt_of_an_infer_path(tmp_path: pathlib.Path) -> None:
    for method in (b"GET", b"OPTIONS", b"HEAD"):
        assert ask(guarded(tmp_path), method, "/v2/models/nope/infer").status == 401


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"])
async def test_health_asks_for_no_token(tmp_path: pathlib.Path, path: str) -> None:
    handler = guarded(tmp_path).find(b"GET", path, {})
    assert handler is not None
    replies = Replies()
    handler(HttpRequest(b"GET", path, {}, b""), replies)
    assert (await replies.arrived()).status == 200


def test_the_head_alone_decides_token_restriction_and_model(tmp_path: pathlib.Path) -> None:
    infer = "/v2/models/{}/{}"
    routes = guarded(tmp_path)
    for action in ("infer", "generate", "generate_stream"):
        for model, headers, status in (
            ("m", {}, 401),
            ("nope", {b"authorization": b"wrong"}, 401),
            ("nope", {b"authorization": b"secret"}, 404),
            ("m", {b"authorization": b"secret"}, None),
            (
                "m",
                {b"authorization": b"secret", b"content-encoding": b"br"},
                501 if action == "infer" else 400,
            ),
        ):
            reply = routes.refusal(b"POST", infer.format(model, action), headers)
            assert (reply and reply.status) == status
    assert routes.refusal(b"POST", "/v2/health/live", {}) is None
    assert routes.refusal(b"POST", "/v2/repository/index", {}) is None
    secret = Restriction(header="Admin-Key", value="hush")
    routes = Routes(engine(), HttpOptions(restrictions={Category.INFERENCE: secret}))
    reply = routes.refusal(b"POST", "/v2/models/m/infer", {})
    assert reply is not None
    assert reply.status == 403
    assert routes.refusal(b"POST", "/v2/models/m/infer", {b"admin-key": b"hush"}) is None


def test_a_health_check_takes_no_large_body() -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"):
        assert Routes(engine(), HttpOptions()).body_limit(path, {}) == 65_536
    assert limit("/v2/health/live") == 10_000


def test_without_the_option_the_handler_is_called_as_it_is() -> None:
    """Nothing stands between a request and its handler without the option for tokens."""
    handler = Routes(engine(), HttpOptions()).find(b"POST", "/v2/models/m/infer", {})
    assert isinstance(handler, InferRoute)
