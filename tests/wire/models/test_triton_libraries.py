"""Libraries that were built for Triton (`libtriton_NAME.so`), behind the adapter that is compiled at their first use."""

import concurrent.futures
import dataclasses
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.reference.process import Program, ServerProcess, naiad_program
from tests.support.c_compiler import compile_library
from tests.support.waiting import wait_until
from tests.wire.plain_http import call

# As Triton's header declares them; a library for Triton is compiled with that header.
LIBRARY = """\
#include <pthread.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *TRITONSERVER_ErrorNew(int code, const char *text);
void *TRITONBACKEND_ModelConfig(void *model, uint32_t version, void **message);
void *TRITONSERVER_MessageSerializeToJson(void *message, const char **text, size_t *size);
void *TRITONSERVER_MessageDelete(void *message);
void *TRITONBACKEND_ModelSetState(void *model, void *state);
void *TRITONBACKEND_ModelState(void *model, void **state);
void *TRITONBACKEND_ModelInstanceModel(void *instance, void **model);
void *TRITONBACKEND_RequestInputByIndex(void *request, uint32_t index, void **input);
void *TRITONBACKEND_InputProperties(void *input, const char **name, int *datatype, const int64_t **shape, uint32_t *rank, uint64_t *size, uint32_t *buffers);
void *TRITONBACKEND_InputBuffer(void *input, uint32_t index, const void **buffer, uint64_t *size, int *type, int64_t *id);
void *TRITONBACKEND_RequestOutputCount(void *request, uint32_t *count);
void *TRITONBACKEND_RequestOutputName(void *request, uint32_t index, const char **name);
void *TRITONBACKEND_RequestRelease(void *request, uint32_t flags);
void *TRITONBACKEND_ResponseNew(void **response, void *request);
void *TRITONBACKEND_ResponseOutput(void *response, void **output, const char *name, int datatype, const int64_t *shape, uint32_t rank);
void *TRITONBACKEND_OutputBuffer(void *output, void **buffer, uint64_t size, int *type, int64_t *id);
void *TRITONBACKEND_ResponseSend(void *response, uint32_t flags, void *error);
void *TRITONBACKEND_ResponseSetStringParameter(void *response, const char *name, const char *value);
void *TRITONBACKEND_ResponseSetIntParameter(void *response, const char *name, int64_t value);

void *TRITONBACKEND_ModelInitialize(void *model) {
  void *message;
  const char *text;
  size_t size;
  TRITONBACKEND_ModelConfig(model, 1, &message);
  TRITONSERVER_MessageSerializeToJson(message, &text, &size);
  char *copy = strndup(text, size);
  TRITONSERVER_MessageDelete(message);
  if (strstr(copy, "refuse")) return TRITONSERVER_ErrorNew(3, "the config says so");
  TRITONBACKEND_ModelSetState(model, copy);
  return 0;
}
static void *answer(void *request) {
  void *input, *response, *output, *error = 0, *buffer;
  const char *name;
  const int64_t *shape;
  const void *data;
  uint32_t rank, count;
  uint64_t size;
  int datatype, type = 2;
  int64_t id;
  TRITONBACKEND_RequestInputByIndex(request, 0, &input);
  TRITONBACKEND_InputProperties(input, 0, &datatype, &shape, &rank, &size, 0);
  TRITONBACKEND_InputBuffer(input, 0, &data, &size, &type, &id);
  TRITONBACKEND_ResponseNew(&response, request);
  if (*(const float *)data < 0) {
    error = TRITONSERVER_ErrorNew(4, "not below \\"zero\\"");
  } else {
    TRITONBACKEND_RequestOutputCount(request, &count);
    for (uint32_t i = 0; i < count; i++) {
      TRITONBACKEND_RequestOutputName(request, i, &name);
      error = TRITONBACKEND_ResponseOutput(response, &output, name, datatype, shape, rank);
      if (!error) error = TRITONBACKEND_OutputBuffer(output, &buffer, size, &type, &id);
      if (!error) memcpy(buffer, data, size);
    }
    TRITONBACKEND_ResponseSetStringParameter(response, "said", "a \\"b\\" \\\\ \\n");
    TRITONBACKEND_ResponseSetIntParameter(response, "rank", rank);
  }
  TRITONBACKEND_ResponseSend(response, 1, error);
  TRITONBACKEND_RequestRelease(request, 1);
  return 0;
}
void *TRITONBACKEND_ModelInstanceExecute(void *instance, void **requests, uint32_t count) {
  void *model;
  char *config;
  TRITONBACKEND_ModelInstanceModel(instance, &model);
  TRITONBACKEND_ModelState(model, (void **)&config);
  for (uint32_t i = 0; i < count; i++) {
    pthread_t thread;
    if (strstr(config, "in_thread")) {
      pthread_create(&thread, 0, answer, requests[i]);
      pthread_detach(thread);
    } else {
      answer(requests[i]);
    }
  }
  return 0;
}
"""
UNKNOWN = """\
void *TRITONBACKEND_FromAnotherRelease(void);
void *TRITONBACKEND_ModelInstanceExecute(void) { return TRITONBACKEND_FromAnotherRelease(); }
"""
CONFIG = """\
backend: "{backend}"
max_batch_size: 8
input {{ name: "X" data_type: TYPE_FP32 dims: [ -1 ] }}
output [ {{ name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }}, {{ name: "Z" data_type: TYPE_FP32 dims: [ -1 ] }} ]
dynamic_batching {{ max_queue_delay_microseconds: 20000 }}
instance_group {{ kind: KIND_CPU }}
parameters {{ key: "HOW" value {{ string_value: "{how}" }} }}
"""


def program_in(folder: pathlib.Path, **variables: str) -> Program:
    naiad = naiad_program()
    environ = {**naiad.environ, "XDG_CACHE_HOME": str(folder / "cache"), **variables}
    return dataclasses.replace(naiad, environ=environ)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("triton_libraries")
    backends = root / "backends"
    compile_library(LIBRARY, backends / "copy" / "libtriton_copy.so", "-lpthread")
    compile_library(UNKNOWN, backends / "unknown" / "libtriton_unknown.so")
    for name, backend, how in (
        ("at_once", "copy", "at_once"),
        ("in_thread", "copy", "in_thread"),
        ("refused", "copy", "refuse"),
        ("unknown", "unknown", ""),
    ):
        (root / "models" / name / "1").mkdir(parents=True)
        (root / "models" / name / "config.pbtxt").write_text(CONFIG.format(backend=backend, how=how))  # fmt: skip
    return root


def _started(folder: pathlib.Path, program: Program, log: str) -> ServerProcess:
    options = [f"--backend-directory={folder / 'backends'}", "--exit-on-error=false"]
    return ServerProcess(program, [folder / "models"], log=folder / log, options=options)


@pytest.fixture(scope="module")
def server(folder: pathlib.Path) -> Iterator[ServerProcess]:
    with _started(folder, program_in(folder), "log") as running:
        yield running


@pytest.mark.parametrize("name", ["at_once", "in_thread"])
def test_each_request_gets_its_rows_and_parameters_or_its_error(server: ServerProcess, name: str) -> None:  # fmt: skip
    with triton.InferenceServerClient(server.grpc) as client:

        def ask(number: int) -> Any:
            given = triton.InferInput("X", [2, 3], "FP32")
            given.set_data_from_numpy(np.full((2, 3), number, np.float32))
            return client.infer(name, [given])

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for number, result in enumerate(pool.map(ask, range(24))):
                for output in ("Y", "Z"):
                    np.testing.assert_array_equal(
                        result.as_numpy(output), np.full((2, 3), number, np.float32)
                    )
        parameters = ask(1).get_response().parameters
        assert parameters["said"].string_param == 'a "b" \\ \n'
        assert parameters["rank"].int64_param == 2
    body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 1], "data": [-1]}]}
    status, reply = call(server.http, "POST", f"/v2/models/{name}/infer", body)
    assert (status, 'not below \\"zero\\"' in reply.decode()) == (503, True), reply


def _reasons(server: ServerProcess) -> dict[str, str]:
    _, reply = call(server.http, "POST", "/v2/repository/index", {})
    return {each["name"]: each.get("reason", "") for each in json.loads(reply)}


def test_a_library_that_needs_more_is_refused_by_the_name_of_the_function(server: ServerProcess) -> None:  # fmt: skip
    wait_until(lambda: bool(_reasons(server)["unknown"]))
    assert "functions that this server does not have (TRITONBACKEND_FromAnotherRelease): implement naiad_backend.h" in _reasons(server)["unknown"]  # fmt: skip
    assert "the config says so" in _reasons(server)["refused"]


def test_without_a_compiler_the_error_names_it_at_the_load_and_in_the_check(folder: pathlib.Path) -> None:  # fmt: skip
    program = program_in(folder, CC="no-such-cc", XDG_CACHE_HOME=str(folder / "empty"))
    with _started(folder, program, "log_without_compiler") as server:
        reason = _reasons(server)["at_once"]
    assert "there is no C compiler 'no-such-cc' on this machine: install one" in reason
    check = dataclasses.replace(program, command=(*program.command[:3], "check"))
    _, output = check.run([str(folder / "models"), f"--backend-directory={folder / 'backends'}"])
    assert reason in output
