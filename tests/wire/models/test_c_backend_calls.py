"""What a backend in C may call or define beside `naiad_execute`: times, readiness, states of sequences, and the completion of a config."""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.reference.process import ServerProcess, naiad_program
from tests.support.c_compiler import compile_library
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get

# Its answer is X + S, which is the next state; X says what else it does.
LIBRARY = """\
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "naiad_backend.h"
NAIAD_BACKEND
static const naiad_host *host;
static int ready = 1;
int naiad_model_load(const naiad_host *offered, const naiad_model_info *info, void **model, naiad_error *error) {
  (void)info; (void)error;
  host = offered;
  *model = 0;
  return NAIAD_OK;
}
void naiad_model_unload(void *model) { (void)model; }
int naiad_instance_create(void *model, const naiad_instance_info *info, void **instance, naiad_error *error) {
  (void)model; (void)info; (void)error;
  *instance = 0;
  return NAIAD_OK;
}
void naiad_instance_destroy(void *instance) { (void)instance; }
int naiad_instance_ready(void *instance) { (void)instance; return ready; }
int naiad_model_complete(const naiad_host *offered, const naiad_model_info *info, naiad_error *error) {
  if (strstr(info->config, "\\"HANG\\"")) for (;;) nanosleep(&(struct timespec){.tv_sec = 1}, 0);
  if (strstr(info->config, "\\"REFUSE\\"")) {
    snprintf(error->text, error->capacity, "it knows no model of that kind");
    return NAIAD_INVALID_ARG;
  }
  if (strstr(info->config, "\\"INVALID\\"")) offered->complete("[1]");
  if (strstr(info->config, "\\"X\\"")) return NAIAD_OK;
  offered->complete("{\\"max_batch_size\\": 3, \\"backend\\": \\"another\\", \\"input\\": [{\\"name\\": \\"X\\", \\"data_type\\": \\"TYPE_INT32\\", \\"dims\\": [1]}],"
                    " \\"output\\": [{\\"name\\": \\"Y\\", \\"data_type\\": \\"TYPE_INT32\\", \\"dims\\": [1]}]}");
  return NAIAD_OK;
}
static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}
static int32_t input(const naiad_request *request, const char *name) {
  for (uint32_t i = 0; i < request->input_count; i++)
    if (strcmp(request->inputs[i].name, name) == 0) return *(const int32_t *)request->inputs[i].data;
  return 0;
}
int naiad_execute(void *instance, const naiad_batch *batch, naiad_error *error) {
  (void)instance; (void)error;
  const int64_t begun = now(), shape[] = {1, 1};
  for (uint32_t i = 0; i < batch->request_count; i++) {
    const naiad_request *request = &batch->requests[i];
    const int32_t x = input(request, "X"), sum = x + (input(request, "START") ? 0 : input(request, "S"));
    if (x == 100 || x == 101) ready = x == 101;
    if (x == 102) {
      while (now() < begun + 20000000) {}
      host->times(batch->context, begun + 10000000, begun + 15000000);
    }
    if (x == 103) host->times(batch->context, begun - 1000000000000, begun + 1000000000000);
    for (uint32_t o = 0; o < request->output_count; o++) {
      int32_t *output = host->output(batch->context, i, request->outputs[o], NAIAD_INT32, shape, 2, 4);
      if (output) *output = sum;
    }
    char line[200];
    snprintf(line, sizeof line, "sequence %s flags %u", request->correlation_id, request->flags);
    if (request->flags) host->log(NAIAD_LOG_INFO, line);
  }
  return NAIAD_OK;
}
"""
TENSORS = """\
max_batch_size: 4
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
"""
SEQUENCES = """\
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  state { input_name: "S" output_name: "S_NEXT" data_type: TYPE_INT32 dims: [ 1 ] }
}
"""
MODELS = {
    "listed": TENSORS,
    "sequences": TENSORS + SEQUENCES,
    "completed": "",
    "refused": 'parameters { key: "REFUSE" value { string_value: "1" } }\n',
    "invalid": 'parameters { key: "INVALID" value { string_value: "1" } }\n' + TENSORS,
    "hangs": 'parameters [ { key: "HANG" value { string_value: "1" } }, { key: "naiad.load_timeout" value { string_value: "3" } } ]\n',
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("c_backend_calls")
    compile_library(LIBRARY, folder / "backends" / "calls" / "libnaiad_calls.so")
    for name, config in MODELS.items():
        (folder / "models" / name / "1").mkdir(parents=True)
        head = 'backend: "calls"\ninstance_group { kind: KIND_CPU }\n'
        (folder / "models" / name / "config.pbtxt").write_text(head + config)
    for name, inside in (("own", "."), ("own_version", "1")):
        # Two backends of which no folder of the server's knows anything.
        library = folder / "models" / name / inside / f"libnaiad_{name}.so"
        (folder / "models" / name / "1").mkdir(parents=True)
        shutil.copy(folder / "backends" / "calls" / "libnaiad_calls.so", library)
        (folder / "models" / name / "config.pbtxt").write_text(f'backend: "{name}"\n')
    options = [f"--backend-directory={folder / 'backends'}", "--exit-on-error=false"]
    with ServerProcess(
        naiad_program(), [folder / "models"], log=folder / "log", options=options
    ) as running:
        yield running


def _add(server: ServerProcess, model: str, value: int, **sequence: Any) -> int:
    given = triton.InferInput("X", [1, 1], "INT32")
    given.set_data_from_numpy(np.array([[value]], np.int32))
    with triton.InferenceServerClient(server.grpc) as client:
        found: int = client.infer(model, [given], **sequence).as_numpy("Y")[0, 0]
    return found


def _compute_ns(server: ServerProcess) -> int:
    _, reply = get(server.http, "/v2/models/listed/stats")
    spent: int = json.loads(reply)["model_stats"][0]["inference_stats"]["compute_infer"]["ns"]
    return spent


def test_the_times_that_a_library_says_are_those_of_the_statistics(server: ServerProcess) -> None:
    before = _compute_ns(server)
    assert _add(server, "listed", 102) == 102
    assert _compute_ns(server) - before == 5_000_000


def test_times_outside_the_call_are_cut_to_it(server: ServerProcess) -> None:
    before = _compute_ns(server)
    assert _add(server, "listed", 103) == 103
    assert 0 < _compute_ns(server) - before < 100_000_000_000


def test_a_library_says_whether_it_is_ready(server: ServerProcess) -> None:
    def ready() -> bool:
        return get(server.http, "/v2/models/listed/ready")[0] == 200

    assert ready()
    _add(server, "listed", 100)
    assert not ready()
    assert get(server.http, "/v2/models/sequences/ready")[0] == 200
    _add(server, "listed", 101)
    assert ready()


def test_sequences_have_controls_and_states(server: ServerProcess) -> None:
    def step(sequence: int, value: int, **flags: bool) -> int:
        return _add(server, "sequences", value, sequence_id=sequence, **flags)

    assert [step(7, 1, sequence_start=True), step(8, 10, sequence_start=True)] == [1, 10]
    assert [step(7, 2), step(8, 20), step(7, 3, sequence_end=True)] == [3, 30, 6]
    assert step(8, 5, sequence_end=True) == 35
    assert step(7, 4, sequence_start=True, sequence_end=True) == 4
    wait_until(lambda: "sequence 8 flags 2" in server.log.read_text())
    assert "sequence 7 flags 1" in server.log.read_text()


@pytest.mark.parametrize(
    ("model", "backend"),
    [("completed", "calls"), ("own", "own"), ("own_version", "own_version")],
)
def test_a_library_completes_the_config(server: ServerProcess, model: str, backend: str) -> None:
    config = json.loads(get(server.http, f"/v2/models/{model}/config")[1])
    assert (config["max_batch_size"], config["backend"]) == (3, backend)
    assert _add(server, model, 5) == 5


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("refused", "backend 'calls' of model 'refused' refuses it: it knows no model of that kind"),
        ("invalid", "the library of backend 'calls' of model 'invalid' set a config that is list, not an object"),
        ("hangs", "auto_complete_config took longer than 3 s (naiad.load_timeout) and was ended"),
    ],
)  # fmt: skip
def test_a_completion_that_fails_says_why(server: ServerProcess, model: str, words: str) -> None:
    def reason() -> str:
        _, reply = call(server.http, "POST", "/v2/repository/index", {})
        (found,) = (each for each in json.loads(reply) if each["name"] == model)
        return str(found.get("reason", ""))

    wait_until(lambda: bool(reason()))
    assert words in reason()


def test_the_check_says_that_the_library_will_complete_it(server: ServerProcess) -> None:
    root = pathlib.Path(server.log).parent
    program = naiad_program()
    command = (*program.command[:3], "check")

    check = dataclasses.replace(program, command=command)
    _, output = check.run([str(root / "models"), f"--backend-directory={root / 'backends'}"])
    assert "completes the config when it is loaded" in output, output
    _, output = check.run([str(root / "models" / "own"), "--load"])
    assert "max_batch_size 3" in output, output
