"""Options as keyword arguments of programs that have a server."""

import pathlib
import re
import typing

import pytest

from naiad.options.keywords import LOGGING, keyword_options, repositories
from naiad.options.options import Options


def options(**given: typing.Any) -> Options:
    return keyword_options([], given, refused=LOGGING, needs_repository=False)


def test_ports_are_closed_and_keep_their_numbers() -> None:
    closed = options()
    assert (closed.allow_http, closed.allow_grpc, closed.allow_metrics) == (False,) * 3
    assert closed.http_port == 8000
    assert closed.model_repository == ()


@pytest.mark.parametrize("written", [True, "true", "on", 1])
def test_a_port_is_opened_by_whatever_means_true(written: typing.Any) -> None:
    opened = options(allow_http=written, http_port=0, allow_grpc=written)
    assert opened.allow_http is opened.allow_grpc is True
    assert opened.http_port == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"allow_http": "maybe"}, "--allow-http=maybe: expected true, on, 1"),
        ({"http_port": "x"}, "--http-port=x: expected an integer"),
        ({"http_port": 70000}, "--http-port=70000: must be at most 65535"),
        ({"allow_http": True, "allow_grpc": True, "http_port": 9000, "grpc_port": 9000}, "give each a port of its own"),
        ({"exit_timeout_secs": None}, "exit_timeout_secs=None: leave the option out for its default"),
        ({"exit_timeout_secs": {}}, "--exit-timeout-secs={}: expected an integer"),
        ({"trace_config": ["rate=1", None]}, "leave the option out"),
        ({"trace_config": "rate=x"}, "--trace-config=rate=x: expected rate as a number"),
        ({"metrics_config": "exemplars=x"}, "--metrics-config=exemplars=x: expected exemplars as true, on"),
        ({"log_verbose": 1}, "log_verbose: the program that runs the server configures"),
        ({"no_such": 1}, "unrecognized option '--no-such'"),
    ],
)  # fmt: skip
def test_a_wrong_one_is_an_error_of_its_name(given: dict[str, typing.Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        options(**given)


def test_a_repository_is_a_path_or_several() -> None:
    assert repositories("s3://b") == ["s3://b"]
    assert repositories((pathlib.Path("/a"), "b")) == [pathlib.Path("/a"), "b"]
    wrong: typing.Any
    for wrong in (5, None, [5], {"a": 1}.items()):
        with pytest.raises(ValueError, match=r"model_repository=.*: expected a folder"):
            repositories(wrong)
