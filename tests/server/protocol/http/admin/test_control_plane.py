import collections.abc
import errno
import importlib
import pathlib
import subprocess
import sys
import typing

import pytest

from naiad.core.clock import ManualClock
from naiad.protocol.http.admin.control_plane import ControlPlane
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.tokens import TokenFile
from tests.server.protocol.http.scripted_engine import ScriptedEngine

_SCRIPT = """
import sys
from naiad.protocol.http.admin.control_plane import ControlPlane
from naiad.protocol.http.routes import HttpOptions, Routes
heavy = {"fastapi", "starlette", "pydantic"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_server_that_only_infers_never_imports_the_framework() -> None:
    subprocess.run(
        [sys.executable, "-c", _SCRIPT], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


class _Sent(list[collections.abc.MutableMapping[str, typing.Any]]):
    """What an application sends."""

    async def __call__(self, event: collections.abc.MutableMapping[str, typing.Any]) -> None:
        self.append(event)


async def _nothing() -> dict[str, typing.Any]:
    raise AssertionError("a refused call's body is not read")


async def test_a_call_without_a_token_does_not_even_make_the_application(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    tokens = TokenFile(str(file), clock=ManualClock())
    engine = ScriptedEngine()
    plane = ControlPlane(engine, Routes(engine, HttpOptions()), {}, tokens)
    for headers in ([], [(b"authorization", b"wrong")]):
        sent = _Sent()
        scope = {"type": "http", "method": "GET", "path": "/v2", "headers": headers}
        await plane(scope, _nothing, sent)
        assert sent[0]["status"] == 401
        assert (b"www-authenticate", b"Bearer") in sent[0]["headers"]
    assert plane._app is None


async def test_without_descriptors_for_the_application_a_call_is_sent_away_and_the_next_one_makes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = ScriptedEngine()
    plane = ControlPlane(engine, Routes(engine, HttpOptions()), {})
    scope = {"type": "http", "method": "GET", "path": "/v2", "headers": [], "query_string": b""}

    def none_left(name: str) -> typing.NoReturn:
        raise OSError(errno.EMFILE, "Too many open files", name)

    sent = _Sent()
    with monkeypatch.context() as without:
        without.setattr(importlib, "import_module", none_left)
        await plane(dict(scope), _nothing, sent)
    assert sent[0]["status"] == 503
    assert b"ulimit -n" in sent[1]["body"]
    assert (b"retry-after", b"1") in sent[0]["headers"]
    sent = _Sent()
    await plane(dict(scope), _nothing, sent)
    assert sent[0]["status"] == 200
