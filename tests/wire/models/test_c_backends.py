"""Backends in C: the example against the same in Python, and libraries that crash, hang or return invalid outputs."""

import concurrent.futures
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.reference.process import ServerProcess, naiad_program
from tests.support.c_compiler import IDENTITY, compile_library, make
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get

PYTHON = """\
import json
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            if "fail" in json.loads(request.parameters() or "{}"):
                error = pb_utils.TritonError("as the request asked for", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], error))
                continue
            outputs = []
            for tensor in request.inputs():
                name = tensor.name().replace("INPUT", "OUTPUT")
                if pb_utils.TRITON_STRING_TO_NUMPY.get("TYPE_BF16", None) is None and tensor.triton_dtype() == 14:
                    outputs.append(pb_utils.Tensor.from_dlpack(name, tensor))
                else:
                    outputs.append(pb_utils.Tensor(name, tensor.as_numpy()))
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
"""

DATATYPES = {
    "BOOL": np.array([[True, False], [False, True]]),
    "UINT8": np.array([[0, 255], [1, 2]], np.uint8),
    "UINT16": np.array([[0, 65535], [1, 2]], np.uint16),
    "UINT32": np.array([[0, 2**32 - 1], [1, 2]], np.uint32),
    "UINT64": np.array([[0, 2**64 - 1], [1, 2]], np.uint64),
    "INT8": np.array([[-128, 127], [1, 2]], np.int8),
    "INT16": np.array([[-(2**15), 2**15 - 1], [1, 2]], np.int16),
    "INT32": np.array([[-(2**31), 2**31 - 1], [1, 2]], np.int32),
    "INT64": np.array([[-(2**63), 2**63 - 1], [1, 2]], np.int64),
    "FP16": np.array([[-0.5, 65504], [1, 2]], np.float16),
    "FP32": np.array([[-0.5, 1e38], [1, 2]], np.float32),
    "FP64": np.array([[-0.5, 1e308], [1, 2]], np.float64),
    "BYTES": np.array([[b"", b"\x00\xff"], ["grüße".encode(), b"x" * 5000]], object),
    "BF16": np.array([[1.5, -2], [0, 1e30]], ml_dtypes.bfloat16),
}

# What it does wrong is the first number of its input; the parameter BREAK says what fails at the load.
BROKEN = """\
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "naiad_backend.h"
NAIAD_BACKEND
static const naiad_host *host;
static void *ended;
int naiad_model_load(const naiad_host *offered, const naiad_model_info *info, void **model, naiad_error *error) {
  host = offered;
  *model = 0;
  if (strstr(info->config, "refuse")) {
    snprintf(error->text, error->capacity, "there is no file weights.bin");
    return NAIAD_NOT_FOUND;
  }
  if (strstr(info->config, "abort")) abort();
  return NAIAD_OK;
}
void naiad_model_unload(void *model) { (void)model; }
int naiad_instance_create(void *model, const naiad_instance_info *info, void **instance, naiad_error *error) {
  (void)model; (void)info; (void)error;
  *instance = 0;
  return NAIAD_OK;
}
void naiad_instance_destroy(void *instance) { (void)instance; }
int naiad_execute(void *instance, const naiad_batch *batch, naiad_error *error) {
  (void)instance;
  for (uint32_t i = 0; i < batch->request_count; i++) {
    const naiad_tensor *input = &batch->requests[i].inputs[0];
    int64_t shape[3] = {1, 1, 1};
    const char *name = "Y";
    uint32_t datatype = NAIAD_INT32, rank = 2;
    uint64_t size = 4;
    int times = 1;
    void *context = batch->context;
    uint32_t index = i;
    const int64_t *dims = shape;
    switch (*(const int32_t *)input->data) {
      case 1: *(volatile int *)8 = 1; break;
      case 2: abort();
      case 3: for (;;) pause();
      case 4: name = 0; break;
      case 5: dims = 0; break;
      case 6: size = 3; break;
      case 7: shape[1] = 7; size = 28; break;
      case 8: times = 0; break;
      case 9: times = 2; break;
      case 10: datatype = 99; break;
      case 11: rank = 4000000000u; break;
      case 12: shape[0] = -1; break;
      case 13: index = 77; break;
      case 14: context = ended; break;
      case 15: snprintf(error->text, error->capacity, "the whole batch"); return NAIAD_UNAVAILABLE;
      case 16: return 4711;
      case 17: memset(error->text, 'x', error->capacity); return NAIAD_INTERNAL;
      case 18: host->fail(context, index, 4711, 0); times = 0; break;
      case 19: name = "Z"; break;
      case 20: host->log(NAIAD_LOG_WARNING, "a line of the library"); break;
      case 21: _exit(3);
      default: break;
    }
    ended = batch->context;
    while (times--) {
      int32_t *output = host->output(context, index, name, datatype, dims, rank, size);
      if (output) *output = *(const int32_t *)input->data;
    }
  }
  return NAIAD_OK;
}
"""


def write_model(folder: pathlib.Path, name: str, config: str, files: dict[str, str] | None = None) -> pathlib.Path:  # fmt: skip
    version = folder / "models" / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config)
    for file, text in (files or {}).items():
        (version / file).write_text(text)
    return version


def _tensors(kind: str, name: str, dims: str) -> str:
    datatypes = [("STRING" if each == "BYTES" else each) for each in DATATYPES]
    return f"{kind} [ " + ", ".join(
        f'{{ name: "{name}{place}" data_type: TYPE_{datatype} dims: [ {dims} ]'
        + (" optional: true }" if kind == "input" else " }")
        for place, datatype in enumerate(datatypes)
    ) + " ]\n"  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("c_backends")
    library = make(IDENTITY, folder / "backends" / "identity", "libnaiad_identity.so")
    for batched in (False, True):
        config = _tensors("input", "INPUT", "-1" if batched else "-1, -1")
        config += _tensors("output", "OUTPUT", "-1" if batched else "-1, -1")
        config += "instance_group { kind: KIND_CPU count: 1 }\n"
        if batched:
            config += (
                "max_batch_size: 64\ndynamic_batching { max_queue_delay_microseconds: 20000 }\n"
            )
        suffix = "batched" if batched else "plain"
        write_model(folder, f"c_{suffix}", f'backend: "identity"\n{config}')
        write_model(
            folder, f"python_{suffix}", f'backend: "python"\n{config}', {"model.py": PYTHON}
        )
    small = (
        'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\noutput { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\n'
        "instance_group { kind: KIND_CPU count: 2 }\n"
    )
    in_model = write_model(folder, "in_model", f'backend: "mine"\n{small}')
    shutil.copy(library, in_model.parent / "libnaiad_mine.so")
    in_version = write_model(folder, "in_version", f'backend: "yours"\n{small}')
    shutil.copy(library, in_version / "libnaiad_yours.so")
    compile_library(BROKEN, folder / "backends" / "broken" / "libnaiad_broken.so")
    broken = (
        'backend: "broken"\nmax_batch_size: 4\ninput { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }\n'
        'output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }\ninstance_group { kind: KIND_CPU }\n'
        'parameters { key: "naiad.execute_timeout" value { string_value: "2" } }\n'
    )
    write_model(folder, "broken", broken)
    for name in ("refuse", "abort"):
        parameter = f'parameters {{ key: "BREAK" value {{ string_value: "{name}" }} }}\n'
        write_model(folder, name, broken + parameter)
    with ServerProcess(
        naiad_program(),
        [folder / "models"],
        log=folder / "log",
        options=[f"--backend-directory={folder / 'backends'}", "--exit-on-error=false"],
    ) as running:
        yield running


def _infer(server: ServerProcess, protocol: str, model: str, values: dict[int, Any]) -> dict[str, Any]:  # fmt: skip
    triton: Any = tritonclient.http if protocol == "http" else tritonclient.grpc
    kinds = list(DATATYPES)
    inputs, outputs = [], []
    for place, array in values.items():
        given = triton.InferInput(f"INPUT{place}", list(array.shape), kinds[place])
        if kinds[place] == "BF16":
            given._data = None
            raw = array.tobytes()
            if protocol == "http":
                given._raw_data, given._parameters["binary_data_size"] = raw, len(raw)
            else:
                given._raw_content = raw
        else:
            given.set_data_from_numpy(array)
        inputs.append(given)
        outputs.append(triton.InferRequestedOutput(f"OUTPUT{place}"))
    address = server.http if protocol == "http" else server.grpc
    with triton.InferenceServerClient(address) as client:
        result = client.infer(model, inputs, outputs=outputs)
        found: dict[str, Any] = {
            f"OUTPUT{place}": result.as_numpy(f"OUTPUT{place}") for place in values
        }
    return found


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("shape", ["plain", "batched"])
def test_the_library_answers_what_the_python_model_answers(
    server: ServerProcess, protocol: str, shape: str
) -> None:
    for place, array in enumerate(DATATYPES.values()):
        mine = _infer(server, protocol, f"c_{shape}", {place: array})
        theirs = _infer(server, protocol, f"python_{shape}", {place: array})
        (name,) = mine
        np.testing.assert_array_equal(mine[name], theirs[name])
        if array.dtype != ml_dtypes.bfloat16:  # which the client has as FP32
            np.testing.assert_array_equal(mine[name], array)
    everything = dict(enumerate(DATATYPES.values()))
    mine, theirs = (
        _infer(server, protocol, f"{kind}_{shape}", everything) for kind in ("c", "python")
    )
    assert list(mine) == list(theirs)
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name])
    empty = {10: np.zeros((1, 0), np.float32), 12: np.zeros((1, 0), object)}
    assert [each.shape for each in _infer(server, protocol, f"c_{shape}", empty).values()] == [
        (1, 0)
    ] * 2


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_requests_of_a_batch_get_their_own_rows_and_one_that_fails_fails_alone(
    server: ServerProcess, protocol: str
) -> None:
    def ask(number: int) -> Any:
        array = np.full((number % 3 + 1, 2), number, np.float32)
        return array, _infer(server, protocol, "c_batched", {10: array})["OUTPUT10"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, number) for number in range(24)]
        body = {"parameters": {"fail": True}, "inputs": [_json("INPUT10", 1.0)]}
        failed = pool.submit(call, server.http, "POST", "/v2/models/c_batched/infer", body)
        for each in asked:
            np.testing.assert_array_equal(*each.result())
    status, reply = failed.result()
    assert (status, "as the request asked for" in reply.decode()) == (400, True)
    _, stats = get(server.http, "/v2/models/c_batched/stats")
    counts = json.loads(stats)["model_stats"][0]
    assert counts["execution_count"] < counts["inference_count"]


def _json(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "datatype": "FP32", "shape": [1, 1], "data": [value]}


@pytest.mark.parametrize("model", ["in_model", "in_version"])
def test_a_library_beside_the_model_serves_it(server: ServerProcess, model: str) -> None:
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [3]}]}
    status, reply = call(server.http, "POST", f"/v2/models/{model}/infer", body)
    assert (status, json.loads(reply)["outputs"][0]["data"]) == (200, [3.0])


def _break(server: ServerProcess, what: int) -> tuple[int, str]:
    body = {"inputs": [{"name": "X", "datatype": "INT32", "shape": [1, 1], "data": [what]}]}
    status, reply = call(server.http, "POST", "/v2/models/broken/infer", body)
    return status, reply.decode()


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        (4, 500, "it gives an output without a name (NULL); the config lists Y"),
        (5, 500, "it gives output 'Y' without a shape (NULL)"),
        (6, 500, "it gives output 'Y' 3 bytes, and shape [1, 1] of INT32 has 4"),
        (7, 500, "it gives output 'Y' the shape [1, 7], and it must be [1, 1]"),
        (8, 500, "it gave no output 'Y', and did not fail the request"),
        (9, 500, "it gives output 'Y' twice"),
        (10, 500, "with datatype number 99, which does not exist, and the config says INT32"),
        (11, 500, "with 4000000000 dimensions, and the config has [-1, 1]"),
        (12, 500, "the shape [-1, 1], and it must be [1, 1]"),
        (13, 500, "it gives an output of request 77 of a batch of 1"),
        (14, 500, "it gave no output 'Y'"),
        (15, 503, "the whole batch"),
        (16, 500, "no text (status 4711, which naiad_backend.h does not have)"),
        (17, 500, "xxxx"),
        (18, 500, "no text (status 4711, which naiad_backend.h does not have)"),
        (19, 500, "it gives an output 'Z', and the config lists Y"),
    ],
)
def test_an_invalid_output_fails_its_request_with_words(server: ServerProcess, what: int, status: int, words: str) -> None:  # fmt: skip
    assert _break(server, 0)[0] == 200  # a batch has ended before
    found, reply = _break(server, what)
    assert (found, words in reply) == (status, True), reply
    assert _break(server, 0)[0] == 200


@pytest.mark.parametrize(
    ("what", "words"),
    [(1, "SIGSEGV"), (2, "SIGABRT"), (3, "naiad.execute_timeout"), (21, "status 3")],
)
def test_a_crash_or_a_hang_ends_its_process_only(server: ServerProcess, what: int, words: str) -> None:  # fmt: skip
    status, reply = _break(server, what)
    assert (status, words in reply) == (503, True), reply
    assert get(server.http, "/v2/models/in_model/ready")[0] == 200
    wait_until(lambda: _break(server, 0)[0] == 200)
    assert get(server.http, "/v2/health/live")[0] == 200


def test_a_library_writes_to_the_log(server: ServerProcess) -> None:
    assert _break(server, 20)[0] == 200
    wait_until(lambda: "a line of the library" in server.log.read_text())


def test_a_load_that_fails_says_why_in_the_index(server: ServerProcess) -> None:
    _, reply = call(server.http, "POST", "/v2/repository/index", {})
    reasons = {each["name"]: each.get("reason", "") for each in json.loads(reply)}
    assert "backend 'broken' of model 'refuse' refuses it: there is no file weights.bin" in reasons["refuse"]  # fmt: skip
    assert "SIGABRT" in reasons["abort"]
