"""The header: its version is everywhere the same, its structs are as long as Python's, and a C++ compiler takes it."""

import ctypes
import pathlib
import re
import shutil
import subprocess

import pytest

from naiad.backends.c import abi, adapter, library
from naiad.config.checks import batch_strategy
from tests.support.c_compiler import ROOT, compile_library

FOLDER = ROOT / "server" / "naiad" / "backends" / "c"
SIZES = """\
#include "naiad_backend.h"
const uint64_t sizes[] = {
  sizeof(naiad_host), sizeof(naiad_model_info), sizeof(naiad_instance_info), sizeof(naiad_error), sizeof(naiad_batch), sizeof(naiad_request),
  sizeof(naiad_tensor)};
"""
CPLUSPLUS = """\
#include "naiad_backend.h"
NAIAD_BACKEND
NAIAD_BATCH_STRATEGY
extern "C" {
int naiad_model_load(const naiad_host*, const naiad_model_info*, void** model, naiad_error*) { *model = nullptr; return NAIAD_OK; }
void naiad_model_unload(void*) {}
int naiad_instance_create(void*, const naiad_instance_info*, void** instance, naiad_error*) { *instance = nullptr; return NAIAD_OK; }
void naiad_instance_destroy(void*) {}
int naiad_execute(void*, const naiad_batch*, naiad_error*) { return NAIAD_OK; }
}
"""


def test_the_version_is_the_same_everywhere() -> None:
    found = re.search(r"#define NAIAD_BACKEND_ABI (\d+)u", (FOLDER / "naiad_backend.h").read_text())
    assert found is not None
    assert {int(found[1])} == {library.ABI, abi.VERSION, batch_strategy.ABI}


def test_structs_are_as_long_as_those_of_python(tmp_path: pathlib.Path) -> None:
    sizes = (ctypes.c_uint64 * 7).in_dll(
        ctypes.CDLL(str(compile_library(SIZES, tmp_path / "sizes.so"))), "sizes"
    )
    structs = (abi.Host, abi.ModelInfo, abi.InstanceInfo, abi.Error)
    assert list(sizes) == [*map(ctypes.sizeof, structs), 24, 64, 40]


def test_a_library_in_cplusplus_is_one(tmp_path: pathlib.Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler on this machine (g++)")
    source, made = tmp_path / "backend.cc", tmp_path / "libnaiad_plus.so"
    source.write_text(CPLUSPLUS)
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{FOLDER}", "-o"]  # fmt: skip
    subprocess.run([*command, str(made), str(source)], check=True)
    library.check_library(made, "plus")


def test_the_adapter_has_what_tritons_identity_backend_calls() -> None:
    used = {"TRITONBACKEND_InputBufferForHostPolicy", "TRITONBACKEND_StateNew", "TRITONSERVER_MessageSerializeToJson"}  # fmt: skip
    assert used <= adapter.functions()
    assert not {name for name in adapter.functions() if "Execute" in name}
