"""Libraries that were built for Triton: response factories of decoupled models, configs that they complete, parameters of requests, states of sequences."""

import json
import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.reference.process import ServerProcess
from tests.support.c_compiler import compile_library
from tests.support.waiting import wait_until
from tests.wire.models.test_triton_libraries import program_in
from tests.wire.plain_http import call, get

GIVE_UP_S = 60

# X responses by a factory, after the request was released; below 0 it says what goes wrong. As Triton's header declares the functions.
LIBRARY = """\
#include <pthread.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *TRITONSERVER_ErrorNew(int code, const char *text);
void TRITONSERVER_ErrorDelete(void *error);
void *TRITONSERVER_MessageNewFromSerializedJson(void **message, const char *text, size_t size);
void *TRITONSERVER_MessageDelete(void *message);
void *TRITONBACKEND_ModelAutoCompleteConfig(void *model, bool *completes);
void *TRITONBACKEND_ModelSetConfig(void *model, uint32_t version, void *message);
void *TRITONBACKEND_RequestInputByIndex(void *request, uint32_t index, void **input);
void *TRITONBACKEND_InputBuffer(void *input, uint32_t index, const void **buffer, uint64_t *size, int *type, int64_t *id);
void *TRITONBACKEND_RequestParameterCount(void *request, uint32_t *count);
void *TRITONBACKEND_RequestParameter(void *request, uint32_t index, const char **name, int *type, const void **value);
void *TRITONBACKEND_RequestOutputCount(void *request, uint32_t *count);
void *TRITONBACKEND_RequestRelease(void *request, uint32_t flags);
void *TRITONBACKEND_ResponseFactoryNew(void **factory, void *request);
void *TRITONBACKEND_ResponseFactoryDelete(void *factory);
void *TRITONBACKEND_ResponseFactorySendFlags(void *factory, uint32_t flags);
void *TRITONBACKEND_ResponseFactoryIsCancelled(void *factory, bool *cancelled);
void *TRITONBACKEND_ResponseNewFromFactory(void **response, void *factory);
void *TRITONBACKEND_ResponseNew(void **response, void *request);
void *TRITONBACKEND_ResponseDelete(void *response);
void *TRITONBACKEND_ResponseOutput(void *response, void **output, const char *name, int datatype, const int64_t *shape, uint32_t rank);
void *TRITONBACKEND_OutputBuffer(void *output, void **buffer, uint64_t size, int *type, int64_t *id);
void *TRITONBACKEND_ResponseSend(void *response, uint32_t flags, void *error);
void *TRITONBACKEND_ResponseSetStringParameter(void *response, const char *name, const char *value);
void *TRITONBACKEND_StateNew(void **state, void *request, const char *name, int datatype, const int64_t *shape, uint32_t rank);
void *TRITONBACKEND_StateBuffer(void *state, void **buffer, uint64_t size, int *type, int64_t *id);
void *TRITONBACKEND_StateUpdate(void *state);
enum { INT32 = 8 };

void *TRITONBACKEND_ModelInitialize(void *model) {
  static const char text[] =
      "{\\"input\\": [{\\"name\\": \\"X\\", \\"data_type\\": \\"TYPE_INT32\\", \\"dims\\": [1]}],"
      " \\"output\\": [{\\"name\\": \\"Y\\", \\"data_type\\": \\"TYPE_INT32\\", \\"dims\\": [1]}], \\"model_transaction_policy\\": {\\"decoupled\\": true}}";
  void *message;
  bool completes;
  TRITONBACKEND_ModelAutoCompleteConfig(model, &completes);
  if (!completes || !getenv("COMPLETES")) return 0;
  TRITONSERVER_MessageNewFromSerializedJson(&message, text, strlen(text));
  void *error = TRITONBACKEND_ModelSetConfig(model, 1, message);
  TRITONSERVER_MessageDelete(message);
  return error;
}
static void *filled(void *response, int32_t value, const char *said) {
  void *output, *buffer, *error;
  const int64_t shape[] = {1};
  int type = 0;
  int64_t id = 0;
  error = TRITONBACKEND_ResponseOutput(response, &output, "Y", INT32, shape, 1);
  if (!error) error = TRITONBACKEND_OutputBuffer(output, &buffer, 4, &type, &id);
  if (!error) *(int32_t *)buffer = value;
  if (said) TRITONBACKEND_ResponseSetStringParameter(response, "said", said);
  return error;
}
typedef struct { void *factory; int32_t x; char said[200]; } work;
static void *answers(void *argument) {
  work *job = argument;
  void *response;
  bool gone = true;
  TRITONBACKEND_ResponseFactoryIsCancelled(job->factory, &gone);
  for (int32_t i = 1; i <= job->x && !gone; i++) {
    if (TRITONBACKEND_ResponseNewFromFactory(&response, job->factory)) break;
    filled(response, i, i == 1 ? job->said : 0);
    TRITONBACKEND_ResponseSend(response, 0, 0);
  }
  if (job->x == -1) {
    void *error = TRITONSERVER_ErrorNew(4, "from the factory");
    TRITONBACKEND_ResponseNewFromFactory(&response, job->factory);
    TRITONBACKEND_ResponseSend(response, 1, error);
    TRITONSERVER_ErrorDelete(error);
    if (TRITONBACKEND_ResponseNewFromFactory(&response, job->factory) == 0) abort();
  } else if (job->x != -2) {
    if (!TRITONBACKEND_ResponseNewFromFactory(&response, job->factory)) TRITONBACKEND_ResponseDelete(response);
    TRITONBACKEND_ResponseFactorySendFlags(job->factory, 1);
  }
  TRITONBACKEND_ResponseFactoryDelete(job->factory);
  free(job);
  return 0;
}
static int32_t sum(void *request, uint32_t first, uint32_t count) {
  int32_t total = 0;
  for (uint32_t i = first; i < first + count; i++) {
    void *input;
    const void *data;
    uint64_t size;
    int type = 0;
    int64_t id = 0;
    if (TRITONBACKEND_RequestInputByIndex(request, i, &input)) break;
    TRITONBACKEND_InputBuffer(input, 0, &data, &size, &type, &id);
    total += *(const int32_t *)data;
  }
  return total;
}
static void parameters(void *request, char *into, size_t size) {
  static const char *const kinds[] = {"string", "int", "bool", "double"};
  uint32_t count;
  TRITONBACKEND_RequestParameterCount(request, &count);
  for (uint32_t i = 0; i < count; i++) {
    const char *name;
    const void *value;
    char shown[100];
    int type;
    TRITONBACKEND_RequestParameter(request, i, &name, &type, &value);
    if (type == 0) snprintf(shown, sizeof shown, "%s", (const char *)value);
    if (type == 1) snprintf(shown, sizeof shown, "%lld", (long long)*(const int64_t *)value);
    if (type == 2) snprintf(shown, sizeof shown, "%d", *(const bool *)value);
    if (type == 3) snprintf(shown, sizeof shown, "%g", *(const double *)value);
    size_t used = strlen(into);
    snprintf(into + used, size - used, "%s %s %s; ", name, kinds[type], shown);
  }
}
void *TRITONBACKEND_ModelInstanceExecute(void *instance, void **requests, uint32_t count) {
  (void)instance;
  for (uint32_t i = 0; i < count; i++) {
    if (getenv("NOT_DECOUPLED")) {
      void *response, *state, *buffer;
      const int64_t shape[] = {1};
      uint32_t outputs;
      int type = 0;
      int64_t id = 0;
      TRITONBACKEND_RequestOutputCount(requests[i], &outputs);
      int32_t total = sum(requests[i], 0, 2);
      TRITONBACKEND_ResponseNew(&response, requests[i]);
      filled(response, total, outputs == 1 ? "one output" : "more");
      TRITONBACKEND_StateNew(&state, requests[i], "S_NEXT", INT32, shape, 1);
      TRITONBACKEND_StateBuffer(state, &buffer, 4, &type, &id);
      *(int32_t *)buffer = total;
      TRITONBACKEND_StateUpdate(state);
      TRITONBACKEND_ResponseSend(response, 1, 0);
    } else {
      pthread_t thread;
      work *job = calloc(1, sizeof *job);
      job->x = sum(requests[i], 0, 1);
      parameters(requests[i], job->said, sizeof job->said);
      if (job->x == -3) return TRITONSERVER_ErrorNew(1, "the whole batch");
      TRITONBACKEND_ResponseFactoryNew(&job->factory, requests[i]);
      pthread_create(&thread, 0, answers, job);
      pthread_detach(thread);
    }
    TRITONBACKEND_RequestRelease(requests[i], 1);
  }
  return 0;
}
"""
TENSORS = """\
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
"""
SEQUENCES = """\
sequence_batching { state { input_name: "S" output_name: "S_NEXT" data_type: TYPE_INT32 dims: [ 1 ] } }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("triton_streams")
    source = LIBRARY
    compile_library(source, folder / "backends" / "factory" / "libtriton_factory.so", "-lpthread")
    completing = source.replace('getenv("COMPLETES")', "1")
    compile_library(completing, folder / "backends" / "completing" / "libtriton_completing.so", "-lpthread")  # fmt: skip
    stateful = source.replace('getenv("NOT_DECOUPLED")', "1")
    compile_library(stateful, folder / "backends" / "stateful" / "libtriton_stateful.so", "-lpthread")  # fmt: skip
    decoupled = "model_transaction_policy { decoupled: true }\n"
    for name, backend, config in (
        ("many", "factory", TENSORS + decoupled),
        ("one", "factory", TENSORS),
        ("completed", "completing", ""),
        ("stateful", "stateful", TENSORS + SEQUENCES),
    ):
        (folder / "models" / name / "1").mkdir(parents=True)
        head = f'backend: "{backend}"\ninstance_group {{ kind: KIND_CPU }}\n'
        (folder / "models" / name / "config.pbtxt").write_text(head + config)
    options = [f"--backend-directory={folder / 'backends'}"]
    with ServerProcess(
        program_in(folder), [folder / "models"], log=folder / "log", options=options
    ) as running:
        yield running


def _x(value: int) -> list[Any]:
    given = triton.InferInput("X", [1], "INT32")
    given.set_data_from_numpy(np.array([value], np.int32))
    return [given]


def _stream(server: ServerProcess, model: str, value: int, **parameters: Any) -> tuple[list[Any], str]:  # fmt: skip
    found: queue.Queue[Any] = queue.Queue()
    values: list[Any] = []
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: found.put((result, error)))
        client.async_stream_infer(model, _x(value), enable_empty_final_response=True, parameters=parameters)  # fmt: skip
        while True:
            result, error = found.get(timeout=GIVE_UP_S)
            if error is not None:
                return values, str(error)
            response = result.get_response()
            if response.outputs:
                values.append(int(result.as_numpy("Y")[0]))
            if response.parameters["said"].string_param:
                values.append(response.parameters["said"].string_param)
            if response.parameters["triton_final_response"].bool_param:
                return values, ""


@pytest.mark.parametrize("model", ["many", "completed"])
@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_a_factory_sends_responses_after_the_request_was_released(
    server: ServerProcess, model: str, count: int
) -> None:
    assert _stream(server, model, count) == (list(range(1, count + 1)), "")


def test_a_request_has_its_parameters(server: ServerProcess) -> None:
    given = {"text": 'a "b" \\ ü €😀\n', "whole": -(2**60), "yes": True, "real": 1.5}
    values, error = _stream(server, "many", 1, **given)
    assert error == ""
    said = sorted(values[1].split("; "))
    assert said == sorted(["", 'text string a "b" \\ ü €😀\n', f"whole int {-(2**60)}", "yes bool 1", "real double 1.5"])  # fmt: skip


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1, "from the factory"),
        (-2, "the library dropped the request without its last response"),
        (-3, "the whole batch"),
    ],
)
def test_a_stream_that_fails_says_why(server: ServerProcess, value: int, words: str) -> None:
    values, error = _stream(server, "many", value)
    assert (values, words in error) == ([], True), error
    assert _stream(server, "many", 1) == ([1], "")


def test_several_responses_of_a_model_that_is_not_decoupled_are_an_error(
    server: ServerProcess,
) -> None:
    body = {"inputs": [{"name": "X", "datatype": "INT32", "shape": [1], "data": [2]}]}
    status, reply = call(server.http, "POST", "/v2/models/one/infer", body)
    assert (status, "does not say model_transaction_policy" in reply.decode()) == (501, True), reply
    body["inputs"][0]["data"] = [-2]
    status, reply = call(server.http, "POST", "/v2/models/one/infer", body)
    assert (status, "dropped the request" in reply.decode()) == (500, True), reply
    wait_until(lambda: get(server.http, "/v2/models/one/ready")[0] == 200)


def test_the_config_is_as_the_library_completed_it(server: ServerProcess) -> None:
    config = json.loads(get(server.http, "/v2/models/completed/config")[1])
    assert [each["name"] for each in (*config["input"], *config["output"])] == ["X", "Y"]
    assert config["model_transaction_policy"]["decoupled"] is True


def test_states_are_not_outputs_of_a_request(server: ServerProcess) -> None:
    with triton.InferenceServerClient(server.grpc) as client:
        found = []
        for value in (1, 2, 3):
            result = client.infer(
                "stateful", _x(value), sequence_id=3, sequence_start=value == 1, sequence_end=value == 3
            )  # fmt: skip
            found.append(int(result.as_numpy("Y")[0]))
            assert result.get_response().parameters["said"].string_param == "one output"
    assert found == [1, 3, 6]
