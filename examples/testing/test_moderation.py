"""How a model.py is tested with naiad.testing: no server, no other model, a debugger that stops where you want it.

pytest examples/testing
"""

import collections.abc
import pathlib

import numpy as np
import pytest

from naiad.testing import ErrorCode, InferenceError, ModelUnderTest, Request, Response, load_model

FOLDER = pathlib.Path(__file__).parent / "model_repository" / "moderation"


def rude_words(request: Request) -> Response:
    """Stands for the real model: long words are rude."""
    scores = np.array([len(word) / 10 for word in request["WORD"]], dtype=np.float32)
    return Response({"SCORE": scores})


@pytest.fixture
def model() -> collections.abc.Iterator[ModelUnderTest]:
    with load_model(FOLDER, models={"rude_words": rude_words}) as loaded:
        yield loaded


def test_words_above_the_limit_are_masked(model: ModelUnderTest) -> None:
    response = model.infer({"TEXT": [["a terrible day"]]})
    assert response["CLEAN"].tolist() == [[b"a ******** day"]]


def test_all_words_of_a_text_are_asked_at_once(model: ModelUnderTest) -> None:
    model.infer({"TEXT": [["one two"], ["three"]]})
    assert [request["WORD"].tolist() for _, request in model.calls] == [
        [b"one", b"two"],
        [b"three"],
    ]


def test_an_empty_text_calls_no_other_model(model: ModelUnderTest) -> None:
    assert model.infer({"TEXT": [[""]]})["CLEAN"].tolist() == [[b""]]
    assert model.calls == []


def test_the_limit_is_a_parameter_of_the_config() -> None:
    with load_model(
        FOLDER, parameters={"limit": "0.9"}, models={"rude_words": rude_words}
    ) as model:
        assert model.infer({"TEXT": [["terrible"]]})["CLEAN"].tolist() == [[b"terrible"]]


def test_a_failure_of_the_other_model_fails_one_request_and_no_other() -> None:
    def fails_at_x(request: Request) -> Response:
        if b"x" in request["WORD"].tolist():
            raise InferenceError(ErrorCode.UNAVAILABLE, "overloaded")
        return rude_words(request)

    with load_model(FOLDER, models={"rude_words": fails_at_x}) as model:
        ((bad,), (good,)) = model.execute([Request({"TEXT": [["x"]]}), Request({"TEXT": [["y"]]})])
    assert bad.error is not None
    assert bad.error.message == "rude_words failed: overloaded"
    assert good["CLEAN"].tolist() == [[b"y"]]


def test_a_request_that_does_not_fit_the_config_never_reaches_the_model(
    model: ModelUnderTest,
) -> None:
    with pytest.raises(InferenceError, match="unexpected inference input 'TEXTS'"):
        model.infer({"TEXTS": [["a"]]})
