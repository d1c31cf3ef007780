"""Locales that a text model needs: seen in the file, and named when a session fails for one."""

import pathlib
from typing import Any

import pytest
from onnx import TensorProto, helper

from naiad.backends.onnxruntime import locales
from tests.server.config.onnx_models import save, value

_LACKS = "by the locale {}, which this machine does not have: install it (Debian: apt-get install locales"


def _write(folder: pathlib.Path, **attributes: Any) -> pathlib.Path:
    node = helper.make_node("StringNormalizer", ["x"], ["y"], **attributes)
    tensors = [value(name, [None], TensorProto.STRING) for name in ("x", "y")]
    branch = helper.make_graph([node], "branch", [], tensors[1:])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph([choice], "g", tensors[:1], tensors[1:])
    return save(helper.make_model(graph, ir_version=8), folder / "model.onnx")


@pytest.mark.parametrize(
    ("attributes", "lacking"),
    [
        ({"case_change_action": "LOWER", "locale": "xx_XX.UTF-8"}, ["xx_XX.UTF-8"]),
        ({"stopwords": ["a", "b"], "locale": "xx_XX"}, ["xx_XX"]),
        ({"stopwords": ["a"], "locale": "xx_XX", "is_case_sensitive": 1}, []),
        ({"locale": "xx_XX.UTF-8"}, []),
        ({"case_change_action": "UPPER", "locale": "C"}, []),
    ],
)
def test_a_locale_that_a_node_uses_and_the_machine_lacks_is_named(
    tmp_path: pathlib.Path, attributes: dict[str, Any], lacking: list[str]
) -> None:
    messages = [error.message for error in locales.faults(_write(tmp_path, **attributes), "m")]

    assert len(messages) == len(lacking)
    for message, name in zip(messages, lacking, strict=True):
        assert _LACKS.format(name) in message


def test_a_node_that_names_none_needs_american_english(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locales, "_exists", lambda name: False)

    (error,) = locales.faults(_write(tmp_path, case_change_action="LOWER"), "m")
    assert "localedef -i en_US -f UTF-8 en_US.UTF-8" in error.message


def test_another_failure_of_a_session_is_not_about_a_locale() -> None:
    assert locales.translated("m", RuntimeError("out of memory")) is None
