"""Loads that fail, in a thread and in a worker process: what the reply, the index, the status page and the log say."""

import collections.abc
import contextlib
import functools
import json

import pytest
import tritonclient.http
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess
from tests.wire.models.worker_models import MODEL, launched, repository
from tests.wire.plain_http import get

Loads = collections.abc.Callable[[str], ServerProcess]


@pytest.fixture(scope="module")
def loads_in(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Loads]:
    """One server for each host, which loads what it is asked to load from the folder beside its log."""
    with contextlib.ExitStack() as running:

        @functools.cache
        def start(host: str) -> ServerProcess:
            folder = tmp_path_factory.mktemp(host)
            (folder / "models").mkdir()
            options = ("--model-control-mode=explicit", f"--backend-config=python,host={host}")
            return running.enter_context(launched(folder / "models", folder, *options))

        yield start


def failed_load(server: ServerProcess, name: str, more: str, code: str) -> tuple[str, str, str]:
    """A load that fails: the error's text, the reason in the index, and what was logged meanwhile."""
    repository(server.log.parent, **{name: (more, code)})
    before = len(server.output())
    with tritonclient.http.InferenceServerClient(server.http) as client:
        with pytest.raises(InferenceServerException) as failure:
            client.load_model(name)
        (entry,) = (each for each in client.get_model_repository_index() if each["name"] == name)
    return str(failure.value), entry["reason"], server.output()[before:]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_like_this\n", ["ModuleNotFoundError", "1/model.py(1)"]),
        (
            MODEL + "\n    def initialize(self, args):\n        self.weights()\n"
            "    def weights(self):\n        raise OSError('no weights')\n",
            ["OSError: no weights", "model.py(17): weights", "model.py(15): initialize"],
        ),
        (
            MODEL
            + "\n    def initialize(self, args):\n        print('so far')\n        os.abort()\n",
            ["was ended by SIGABRT while it loaded", "so far", "in initialize"],
        ),
    ],
    ids=["import", "initialize", "crash"],
)
@pytest.mark.parametrize("host", ["thread", "process"])
@pytest.mark.slow
def test_a_failed_load_shows_the_model_s_own_lines_in_the_reply_the_index_and_the_log(
    loads_in: Loads, code: str, said: collections.abc.Sequence[str], host: str
) -> None:
    if host == "thread" and "abort" in code:
        pytest.skip("a thread takes the server with it: that is what processes are for")
    for place in failed_load(loads_in(host), f"bad_{abs(hash(code))}", "", code):
        for part in said:
            assert part in place


@pytest.mark.parametrize("limited", ["execute", "load"])
def test_a_limit_that_a_thread_cannot_keep_is_refused(loads_in: Loads, limited: str) -> None:
    parameter = f"naiad.{limited}_timeout"
    limit = f'parameters {{ key: "{parameter}" value {{ string_value: "0.5" }} }}\n'
    failed_load(loads_in("thread"), limited, limit, MODEL)
    assert f"{parameter} and runs in a thread" in unavailable(loads_in("thread"), limited)


def test_a_host_that_there_is_not_is_refused(loads_in: Loads) -> None:
    wrong = 'parameters { key: "naiad.host" value { string_value: "container" } }\n'
    failed_load(loads_in("process"), "contained", wrong, MODEL)
    reason = unavailable(loads_in("process"), "contained")
    assert "host=container, which is not a valid host: choose thread or process" in reason


def unavailable(server: ServerProcess, model: str) -> str:
    """Why the status page says that a model is unavailable."""
    models = json.loads(get(server.metrics, "/status")[1])["models"]
    (entry,) = (each for each in models if each["name"] == model)
    assert entry["state"] == "UNAVAILABLE"
    reason: str = entry["reason"]
    return reason
