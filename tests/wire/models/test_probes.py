"""Everything that the conformance model `calling` can ask, in threads of the server and in worker processes.

The conformance run holds the thread host to the reference; here both hosts are held to each other, and to the words of the rows where
the reference cannot be asked.
"""

import collections.abc
import json
from typing import Any

import pytest

from tests.conformance.servers import callees
from tests.conformance.test_calls import PROBES, REFUSED
from tests.reference.process import ServerProcess, naiad_program
from tests.wire.plain_http import call

HOSTS = ("thread", "process")

# Worker processes start side by side, and a machine may be busy.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[dict[str, ServerProcess]]:
    """A server with each host, on the same models."""
    repositories = callees.write(tmp_path_factory.mktemp("callees"))
    running: dict[str, ServerProcess] = {}
    try:
        for host in HOSTS:
            options = [
                "--model-control-mode=explicit",
                "--disable-auto-complete-config",
                f"--backend-config=python,host={host}",
                *(f"--load-model={name}" for name in callees.AT_START),
            ]
            log = tmp_path_factory.mktemp("log") / f"{host}.log"
            running[host] = ServerProcess(naiad_program(), repositories, log=log, options=options)
            running[host].__enter__()
        yield running
    finally:
        for each in running.values():
            each.__exit__(None, None, None)


def probe(server: ServerProcess, name: str) -> Any:
    body = {"inputs": [{"name": "PROBE", "datatype": "BYTES", "shape": [1], "data": [name]}]}
    _, reply = call(server.http, "POST", "/v2/models/calling/infer", body)
    return json.loads(json.loads(reply)["outputs"][0]["data"][0])


@pytest.mark.parametrize(("name", "says"), [(name, says) for name, _, says in (*PROBES, *REFUSED)])
def test_both_hosts_answer_alike_and_in_the_words_of_the_row(
    both: dict[str, ServerProcess], name: str, says: str
) -> None:
    in_thread, in_process = (probe(both[host], name) for host in HOSTS)
    assert in_process == in_thread
    assert says in json.dumps(in_thread, ensure_ascii=False)
