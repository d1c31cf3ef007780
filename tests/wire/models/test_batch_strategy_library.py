"""Batching strategies that are libraries in C: allowed by an option only, loaded again with their model, and refused in the words of the check."""

import concurrent.futures
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from tests.reference.process import Program, ServerProcess, naiad_program
from tests.support.c_compiler import ROOT, compile_library, make
from tests.wire.models.test_batch_strategy import CONFIG, MODEL
from tests.wire.plain_http import call

EXAMPLE = ROOT / "examples" / "batch_strategies" / "volume_c"
OPTION = "--batch-strategy-libraries=true"
FAILING = """\
#include <stdio.h>
#include "naiad_backend.h"
NAIAD_BATCH_STRATEGY
int naiad_strategy_create(const naiad_strategy_info *info, void **strategy, naiad_error *error) {
  (void)info; (void)strategy; (void)error;
  return NAIAD_OK;
}
void naiad_strategy_destroy(void *strategy) { (void)strategy; }
int naiad_batch_include(void *strategy, void *batch, const naiad_request *request, int *include, naiad_error *error) {
  (void)strategy; (void)batch; (void)request; (void)include;
  snprintf(error->text, error->capacity, "it does not know");
  return NAIAD_INTERNAL;
}
"""
TRITONS = """\
int TRITONBACKEND_ModelBatchIncludeRequest(void);
int TRITONBACKEND_ModelBatchIncludeRequest(void) { return 0; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make(EXAMPLE, tmp_path_factory.mktemp("strategy"), "batchstrategy.so")


def _model(root: pathlib.Path, name: str, config: str = CONFIG) -> pathlib.Path:
    folder = root / "models" / name
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(MODEL)
    (folder / "config.pbtxt").write_text(config)
    return folder


def _counts(server: ServerProcess, *sizes: int) -> list[int]:
    def ask(size: int) -> int:
        with triton.InferenceServerClient(server.http, network_timeout=60) as client:
            given = triton.InferInput("X", [1, size], "FP32")
            given.set_data_from_numpy(np.zeros((1, size), np.float32))
            return int(client.infer("volume", [given]).as_numpy("COUNT")[0, 0])

    with concurrent.futures.ThreadPoolExecutor(len(sizes)) as pool:
        return sorted(pool.map(ask, sizes))


def test_a_library_forms_the_batches_and_is_loaded_again_with_its_model(
    library: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Each request has 32 bytes, so that three of them are a batch."""
    folder = _model(tmp_path, "volume")
    shutil.copy(library, folder)
    options = ("--model-control-mode=explicit", "--load-model=*", OPTION)
    with (
        ServerProcess(
            naiad_program(), [tmp_path / "models"], log=tmp_path / "log", options=options
        ) as server,
        triton.InferenceServerClient(server.http) as client,
    ):
        assert _counts(server, *[8] * 6) == [3] * 6

        (folder / "config.pbtxt").write_text(CONFIG.replace('"96"', '"64"'))
        client.load_model("volume")
        assert _counts(server, *[8] * 4) == [2] * 4

        compile_library(FAILING, tmp_path / "failing.so")
        # In place, which would change the code of a library that the system's loader has mapped.
        (folder / "batchstrategy.so").write_bytes((tmp_path / "failing.so").read_bytes())
        client.load_model("volume")
        assert _counts(server, *[8] * 8) == [8] * 8, "the default rules"
        assert "it does not know" in server.output()

        shutil.copy(library, folder / "batchstrategy.so")
        (folder / "config.pbtxt").write_text(CONFIG.replace("MAX_BATCH_VOLUME_BYTES", "ANOTHER"))
        with pytest.raises(InferenceServerException) as raised:
            client.load_model("volume")
        assert "parameter MAX_BATCH_VOLUME_BYTES is missing in config.pbtxt" in str(raised.value)
        assert _counts(server, *[8] * 8) == [8] * 8, "what was loaded before serves on"


def _reasons(server: ServerProcess) -> dict[str, str]:
    _, reply = call(server.http, "POST", "/v2/repository/index", {})
    return {each["name"]: each.get("reason", "") for each in json.loads(reply)}


@pytest.mark.parametrize("allowed", [False, True])
def test_what_is_refused_says_why_in_the_words_of_the_check(
    library: pathlib.Path, tmp_path: pathlib.Path, allowed: bool  # noqa: FBT001 - a parameter of the test
) -> None:  # fmt: skip
    words = {
        "text": "batchstrategy.so is not a batching strategy: it is not an ELF file",
        "tritons": "batchstrategy.so is a batching strategy for Triton's C interface, which this server cannot load",
    }
    (_model(tmp_path, "text") / "batchstrategy.so").write_bytes(b"text")
    compile_library(TRITONS, _model(tmp_path, "tritons") / "batchstrategy.so")
    shutil.copy(library, _model(tmp_path, "volume"))
    if not allowed:
        words["volume"] = "start the server with --batch-strategy-libraries=true, or write batchstrategy.py beside it"  # fmt: skip
    options: list[Any] = [OPTION] if allowed else []
    naiad = naiad_program()
    with ServerProcess(
        naiad,
        [tmp_path / "models"],
        log=tmp_path / "log",
        options=["--exit-on-error=false", *options],
    ) as server:
        reasons = _reasons(server)
    check = Program(
        name="check",
        command=(*naiad.command[: naiad.command.index("serve")], "check"),
        environ=naiad.environ,
    )
    _, output = check.run([str(tmp_path / "models"), *options])
    for name, text in words.items():
        assert text in reasons[name]
        assert text in output
    assert bool(reasons["volume"]) is not allowed
