"""Backends in C whose responses come after their batch, or several to one request: a decoupled model, and one with one late response."""

import json
import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.reference.process import ServerProcess, naiad_program
from tests.support.c_compiler import compile_library
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get

GIVE_UP_S = 60

# X responses, from a thread of the library; below 0 it says what goes wrong.
LIBRARY = """\
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "naiad_backend.h"
NAIAD_BACKEND
static const naiad_host *host;
typedef struct { void *deferred; int32_t x; } work;
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
static void *begin(void *deferred, int32_t value, int64_t rows) {
  void *response = host->response(deferred);
  const int64_t shape[] = {rows};
  int32_t *output = response ? host->output(response, 0, "Y", NAIAD_INT32, shape, 1, 4 * rows) : 0;
  for (int64_t i = 0; output && i < rows; i++) output[i] = value;
  return response;
}
static void *answers(void *argument) {
  work job = *(work *)argument;
  free(argument);
  for (int32_t i = 1; i < job.x; i++) host->send(begin(job.deferred, i, i), NAIAD_RESPONSE_MORE);
  if (job.x > 0) host->send(begin(job.deferred, job.x, job.x), NAIAD_RESPONSE_FINAL);
  switch (job.x) {
    case 0: host->end(job.deferred); break;
    case -1: host->send(begin(job.deferred, 1, 1), NAIAD_RESPONSE_MORE); abort();
    case -2: {
      host->send(begin(job.deferred, 1, 1), NAIAD_RESPONSE_MORE);
      void *last = host->response(job.deferred);
      host->fail(last, 0, NAIAD_UNAVAILABLE, "after one response");
      host->send(last, NAIAD_RESPONSE_FINAL);
      break;
    }
    case -3: {
      const int64_t shape[] = {1};
      void *last = host->response(job.deferred);
      host->output(last, 0, "Q", NAIAD_INT32, shape, 1, 4);
      host->parameter(last, 0, "said", "\\"no\\"");
      host->send(last, NAIAD_RESPONSE_FINAL);
      break;
    }
    case -4: {
      host->send(begin(job.deferred, 1, 1), NAIAD_RESPONSE_DROP);
      void *last = begin(job.deferred, 4, 1);
      host->parameter(last, 0, "said", "\\"yes\\"");
      host->send(last, NAIAD_RESPONSE_FINAL);
      host->send(last, NAIAD_RESPONSE_FINAL);
      host->end(job.deferred);
      if (host->response(job.deferred)) abort();
      break;
    }
    case -6:
      host->log(NAIAD_LOG_INFO, "waits for its client to go");
      while (!host->cancelled(job.deferred, 0)) usleep(1000);
      host->log(NAIAD_LOG_INFO, "its client has gone");
      host->end(job.deferred);
      break;
  }
  return 0;
}
int naiad_execute(void *instance, const naiad_batch *batch, naiad_error *error) {
  (void)instance;
  for (uint32_t i = 0; i < batch->request_count; i++) {
    pthread_t thread;
    work *job = malloc(sizeof *job);
    job->x = *(const int32_t *)batch->requests[i].inputs[0].data;
    job->deferred = host->defer(batch->context, i);
    if (host->defer(batch->context, i) || host->defer(batch->context, 77)) abort();
    if (job->x == -5) {
      snprintf(error->text, error->capacity, "the batch fails");
      return NAIAD_INTERNAL;
    }
    pthread_create(&thread, 0, answers, job);
    pthread_detach(thread);
  }
  return NAIAD_OK;
}
"""
CONFIG = """\
backend: "stream"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }
instance_group { kind: KIND_CPU }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("c_backend_streams")
    compile_library(LIBRARY, folder / "backends" / "stream" / "libnaiad_stream.so", "-lpthread")
    for name, more in (
        ("many", "model_transaction_policy { decoupled: true }\n"),
        ("others", "model_transaction_policy { decoupled: true }\n"),
        ("one", ""),
    ):
        (folder / "models" / name / "1").mkdir(parents=True)
        (folder / "models" / name / "config.pbtxt").write_text(CONFIG + more)
    options = [f"--backend-directory={folder / 'backends'}"]
    with ServerProcess(
        naiad_program(), [folder / "models"], log=folder / "log", options=options
    ) as running:
        yield running


def _x(value: int) -> list[Any]:
    given = triton.InferInput("X", [1], "INT32")
    given.set_data_from_numpy(np.array([value], np.int32))
    return [given]


def _stream(server: ServerProcess, model: str, value: int) -> tuple[list[Any], str]:
    """The responses to a request, and the error that follows them, if one does."""
    found: queue.Queue[Any] = queue.Queue()
    values: list[Any] = []
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: found.put((result, error)))
        client.async_stream_infer(model, _x(value), enable_empty_final_response=True)
        while True:
            result, error = found.get(timeout=GIVE_UP_S)
            if error is not None:
                return values, str(error)
            response = result.get_response()
            if response.outputs:
                values.append(result.as_numpy("Y").tolist())
            if "said" in response.parameters:
                values.append(response.parameters["said"].string_param)
            if response.parameters["triton_final_response"].bool_param:
                return values, ""


@pytest.mark.parametrize("count", [0, 1, 4, 200])
def test_a_request_gets_as_many_responses_as_the_library_sends(
    server: ServerProcess, count: int
) -> None:
    assert _stream(server, "many", count) == ([[i] * i for i in range(1, count + 1)], "")


def test_a_response_may_fail_and_ends_the_others(server: ServerProcess) -> None:
    values, error = _stream(server, "many", -2)
    assert (values, "after one response" in error) == ([[1]], True), error
    values, error = _stream(server, "many", -3)
    assert (values, "it gives an output 'Q', and the config lists Y" in error) == ([], True), error


def test_a_batch_that_fails_fails_what_it_has_deferred(server: ServerProcess) -> None:
    values, error = _stream(server, "many", -5)
    assert (values, "the batch fails" in error) == ([], True), error
    assert _stream(server, "many", 1) == ([[1]], "")


def test_what_comes_after_the_last_response_is_refused(server: ServerProcess) -> None:
    assert _stream(server, "many", -4) == ([[4], "yes"], "")
    wait_until(lambda: "calls end for a deferred request that has had its last" in server.log.read_text())  # fmt: skip
    wait_until(lambda: "calls response for a deferred request that has had its last" in server.log.read_text())  # fmt: skip
    assert "sends a response that it has not begun, or has sent" in server.log.read_text()


def test_a_library_sees_that_its_client_has_gone(server: ServerProcess) -> None:
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: None)
        client.async_stream_infer("many", _x(-6))
        wait_until(lambda: "waits for its client to go" in server.log.read_text())
        client.stop_stream(cancel_requests=True)
    wait_until(lambda: "its client has gone" in server.log.read_text())


def test_a_crash_in_the_middle_fails_its_model_only(server: ServerProcess) -> None:
    values, error = _stream(server, "many", -1)
    assert (values, "SIGABRT" in error) == ([[1]], True), error
    assert _stream(server, "others", 2) == ([[1], [2, 2]], "")
    wait_until(lambda: get(server.http, "/v2/models/many/ready")[0] == 200)
    wait_until(lambda: _stream(server, "many", 1) == ([[1]], ""))


def test_one_late_response_of_a_model_that_is_not_decoupled(server: ServerProcess) -> None:
    def ask(value: int) -> tuple[int, Any]:
        body = {"inputs": [{"name": "X", "datatype": "INT32", "shape": [1], "data": [value]}]}
        status, reply = call(server.http, "POST", "/v2/models/one/infer", body)
        return status, json.loads(reply)

    status, reply = ask(1)
    assert (status, reply["outputs"][0]["data"]) == (200, [1])
    status, reply = ask(3)  # the first is the last
    assert (status, reply["outputs"][0]["data"]) == (200, [1])
    status, reply = ask(0)
    assert (status, "without a response, and the model is not decoupled" in reply["error"]) == (500, True)  # fmt: skip
    assert ask(1)[0] == 200
