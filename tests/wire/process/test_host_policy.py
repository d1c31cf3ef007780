"""Host policies of a running server: the thread and the threads of a session, and the worker process, run on their cores and on no others."""

import os
import pathlib

import onnx
import pytest
from onnx import TensorProto, helper

from tests.reference.process import ServerProcess, naiad_program

CORES = sorted(os.sched_getaffinity(0))
POLICY = f"--host-policy=one,cpu-cores={CORES[0]}-{CORES[0]}"
GROUP = 'instance_group { kind: KIND_CPU count: 1 host_policy: "one" }'


def affinities(pid: int) -> dict[str, set[int]]:
    """The processors of each thread of a process that may not run on all of them, by name."""
    found: dict[str, set[int]] = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        where = os.sched_getaffinity(int(task.name))
        if where != set(CORES):
            found.setdefault((task / "comm").read_text().strip(), set()).update(where)
    return found


def multiplication() -> onnx.ModelProto:
    """A graph that a session runs with several threads."""
    given, result = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64]) for name in ("x", "y")
    )
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "g", [given], [result])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.skipif(len(CORES) < 2, reason="one processor")
def test_instances_and_what_they_start_run_on_the_cores_of_their_policy(
    tmp_path: pathlib.Path,
) -> None:
    root = tmp_path / "models"
    for host in ("thread", "process"):
        folder = root / host / "1"
        folder.mkdir(parents=True)
        parameter = f'parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}'
        (root / host / "config.pbtxt").write_text(f'backend: "onnxruntime" {GROUP} {parameter}')
        (folder / "model.onnx").write_bytes(multiplication().SerializeToString())
    log = tmp_path / "log"
    with ServerProcess(naiad_program(), [root], log=log, options=[POLICY]) as server:
        assert server.process is not None
        pid = server.process.pid
        tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
        workers = [each for task in tasks for each in (task / "children").read_text().split()]
        bound = [affinities(int(each)) for each in workers]
        assert [where for where in bound if where], "the worker is bound"
        assert all(cores == {CORES[0]} for where in bound for cores in where.values())
        # A session has a thread for each further core that it may use, so one that is bound to one core has none.
        assert all(cores == {CORES[0]} for cores in affinities(pid).values())


def test_cores_that_there_are_not_stop_the_start(tmp_path: pathlib.Path) -> None:
    program = naiad_program()
    (tmp_path / "models").mkdir()
    server = ServerProcess(program, [tmp_path / "models"], log=tmp_path / "log", options=["--host-policy=one,cpu-cores=0-4000"])  # fmt: skip
    status, output = program.run(server.arguments)
    assert status == 1
    assert "--host-policy=one: cpu-cores names" in output
    assert "and this process may run on" in output
