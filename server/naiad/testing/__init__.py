"""Tests of a model.py without a server: load it, send it numpy arrays, fake the models that it calls (docs/testing-models.md).

    from naiad.testing import load_model

    def test_words_are_counted() -> None:
        with load_model("model_repository/word_count") as model:
            assert model.infer({"TEXT": [["one two"]]})["WORDS"].tolist() == [[2]]

The model runs in the test's own process and thread, by the code that runs it in a thread of the server: requests are validated
against its config, errors are those that a client would get, and a debugger stops in it.
"""

from naiad.errors import ErrorCode, InferenceError
from naiad.testing.fakes import Fake
from naiad.testing.model import ModelUnderTest, load_model
from naiad.testing.values import Request, Response

__all__ = (
    "ErrorCode",
    "Fake",
    "InferenceError",
    "ModelUnderTest",
    "Request",
    "Response",
    "load_model",
)
