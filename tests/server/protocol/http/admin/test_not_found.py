"""The message of an unknown path names what was probably meant."""

import difflib

import pytest

from naiad.protocol.http.admin.errors import not_found

MODELS = ("emojize", "add")
DOCS = "GET /docs shows every path"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v2/models/emojize/infr", "/v2/models/emojize/infer"),
        ("/v2/models/emojize/infer/", "/v2/models/emojize/infer"),
        ("/v2/models/emojize/", "/v2/models/emojize"),
        ("/v2/models/emojise/infer/", "/v2/models/emojize/infer"),
        ("/v2/models/emojise/generate-stream", "/v2/models/emojize/generate_stream"),
        ("/v2/models/add/versions/2/confg", "/v2/models/add/versions/2/config"),
        ("/v2/models/add/versions/latest/infer", "/v2/models/add/versions/1/infer"),
        ("/v2/health/live/", "/v2/health/live"),
        ("/v2/health/redy", "/v2/health/ready"),
        ("/v2/", "/v2"),
        ("/doc", "/docs"),
    ],
)
def test_the_closest_path_is_suggested(path: str, meant: str) -> None:
    message = not_found(path, MODELS)
    assert message.startswith(f"Not Found: this server has no path {path}; did you mean {meant}?")
    assert message.endswith(DOCS)


def test_a_list_of_models_is_somewhere_else() -> None:
    for path in ("/v2/models", "/v2/models/"):
        assert not_found(path, MODELS) == (
            f"Not Found: this server has no path {path}; POST /v2/repository/index lists the models, "
            f"GET /v2/models/MODEL describes one; models: add, emojize; {DOCS}"
        )


@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/models/add", "/v2x"])
def test_models_are_named_only_below_v2(path: str) -> None:
    message = not_found(path, MODELS)
    assert "emojize" not in message
    assert message.endswith(DOCS)


def test_what_resembles_nothing_gets_no_suggestion() -> None:
    assert not_found("/v2/models/emojize/xyz", MODELS) == (
        f"Not Found: this server has no path /v2/models/emojize/xyz; models: add, emojize; {DOCS}"
    )
    assert "did you mean" not in not_found("/v2/models/zzzz/infr", MODELS)
    assert "did you mean" not in not_found("/v2/models/emojize/infr", ())


def test_long_paths_and_many_models_are_cut() -> None:
    message = not_found("/v2/models/emojize/" + "x" * 10_000, MODELS)
    assert len(message) < 400
    many = not_found("/v2/nothing", [f"m{number:03}" for number in range(100)])
    assert "models: m000, m001," in many
    assert "m009 and 90 more;" in many


def test_among_thousands_of_models_the_closest_is_found_without_comparing_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []
    closest = difflib.get_close_matches

    def counted(word: str, words: list[str], n: int) -> list[str]:
        compared.append(len(words))
        return closest(word, words, n=n)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    models = [f"classifier-of-tenant-{number:05}-v2" for number in range(5_000)]
    for meant in ("classifier-of-tenant-04321-v2", "classifier-of-tenant-00007-v2"):
        for wrong in (meant.replace("tenant", "tennant"), meant[:-1], "k" + meant[1:]):
            assert f"did you mean /v2/models/{meant}/infer?" in not_found(
                f"/v2/models/{wrong}/infr", models
            )
    assert max(compared) <= 16, "each comparison takes 0.1 ms of the event loop"
