"""What frameworks say of failures, as messages show it: texts that onnxruntime 1.31, torch 2.15, TensorFlow 2.21 and OpenVINO 2026.4 gave."""

import pytest

from naiad.backends import reasons

SCRIPT = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript, serialized code (most recent call last):
  File "code/__torch__.py", line 10, in forward
    x: Tensor) -> Tensor:
    return torch.relu(torch.mul(x, factor))
                      ~~~~~~~~~ <--- HERE

Traceback of TorchScript, original code (most recent call last):
  File "/src/model.py", line 14, in forward
        return torch.relu(x*self.factor)
                          ~~~~~~~~~~~~~ <--- HERE
{}
"""

CODE = """
Unknown builtin op: mylib::frobnicate.
Could not find any similar ops to mylib::frobnicate. This op may not exist or may not be currently supported in TorchScript.
:
  File "code/__torch__.py", line 10
    x: Tensor) -> Tensor:
    return ops.mylib.frobnicate(torch.mul(x, factor))
           ~~~~~~~~~~~~~~~~~~~~ <--- HERE
"""

SAID = {
    "torch_shape": (
        SCRIPT.format("RuntimeError: The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1"),
        "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1 (at /src/model.py:14 in forward)",
    ),
    "torch_memory": (
        SCRIPT.format(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 1125899906842624 bytes. "
            "Error code 12 (Cannot allocate memory)"
        ),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1125899906842624 bytes. Error code 12 (Cannot allocate memory) "
        "(at /src/model.py:14 in forward)"),
    ),
    "torch_raise": (
        SCRIPT.format("builtins.ValueError: too large a value"),
        "ValueError: too large a value (at /src/model.py:14 in forward)",
    ),
    "torch_operator": (
        CODE,
        ("Unknown builtin op: mylib::frobnicate. Could not find any similar ops to mylib::frobnicate. This op may not exist or may not be currently supported "
        "in TorchScript. (at code/__torch__.py:10)"),
    ),
    "torch_file": (
        "[enforce fail at inline_container.cc:424] . file not found: archive/data/0\nframe #0: c10::ThrowEnforceNotMet(char const*)\nframe #1: main",
        "file not found: archive/data/0",
    ),
    "openvino_operator": (
        ("Exception from src/inference/src/cpp/core.cpp:84:\nException from src/core/xml_util/src/xml_deserialize_util.cpp:1286:\n"
        "Opset opset1 doesn't contain the operation with type: Frobnicate\n\n"),
        "Opset opset1 doesn't contain the operation with type: Frobnicate",
    ),
    "openvino_weights": (
        ("Exception from src/inference/src/cpp/core.cpp:84:\nCheck 'is_valid_weights_range(m_weights_provider->size(), offset, size)' failed at "
        "src/core/xml_util/src/xml_deserialize_util.cpp:900:\nIncorrect weights in bin file!\n\n"),
        "Incorrect weights in bin file!",
    ),
    "openvino_run": (
        ("Exception from src/inference/src/cpp/infer_request.cpp:224:\nException from src/plugins/intel_cpu/src/node.cpp:794:\n[CPU] Broadcast node with name "
        "'Broadcast_34' Check 'retCode == dnnl::impl::status::success' failed at src/plugins/intel_cpu/src/memory_desc/dnnl_blocked_memory_desc.cpp:481:\n"
        "Can not clone DnnlBlockedMemoryDesc with dims: {65536, 65536, 65536}\n\n\n"),
        "[CPU] Broadcast node with name 'Broadcast_34' Can not clone DnnlBlockedMemoryDesc with dims: {65536, 65536, 65536}",
    ),
    "onnxruntime_memory": (
        ("[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running ConstantOfShape node. Name:'' Status Message: "
        "/onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:360 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) "
        "Failed to allocate memory for requested buffer of size 1125899906842624\n"),
        ("[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running ConstantOfShape node. Name:'' Status Message: "
        "Failed to allocate memory for requested buffer of size 1125899906842624"),
    ),
    "onnxruntime_version": (
        ("[ONNXRuntimeError] : 1 : FAIL : Load model from m.onnx failed:/onnxruntime_src/onnxruntime/core/graph/model.cc:256 onnxruntime::Model::Model(onnx::"
        "ModelProto&&, const std::function<void(int)>&, const onnxruntime::ModelOptions&) Unsupported model IR version: 99, max supported IR version: 13\n"),
        "[ONNXRuntimeError] : 1 : FAIL : Unsupported model IR version: 99, max supported IR version: 13",
    ),
    "onnxruntime_claim": (
        "[ONNXRuntimeError] : 1 : FAIL : tensorprotoutils.cc:1512 ValidateEmbeddedTensorProtoDataSizeAndShape Initializer 'w' declares a size of 100000000000 bytes",
        "[ONNXRuntimeError] : 1 : FAIL : Initializer 'w' declares a size of 100000000000 bytes",
    ),
    "tensorflow_memory": (
        ("Graph execution error:\n\nOOM when allocating tensor with shape[281474976710656] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by "
        "allocator mklcpu\n\t [[{{node Fill}}]]\nHint: If you want to see a list of allocated tensors when OOM happens, add "
        "report_tensor_allocations_upon_oom to RunOptions for current allocation info. This isn't available when running in Eager mode.\n\n"
        "Original stack trace for 'Fill':\n  File x"),
        "OOM when allocating tensor with shape[281474976710656] and type float on CPU:0 [[{{node Fill}}]]",
    ),
    "tensorflow_node": (
        ("Graph execution error:\n\nDetected at node 'factors' defined at (most recent call last):\n  File \"x.py\", line 1\nNode: 'factors'\n"
        "Cannot parse tensor from proto: goo.gle/debugonly   \ndtype: DT_FLOAT\n\n\t [[{{node factors}}]]"),
        "Cannot parse tensor from proto: goo.gle/debugonly dtype: DT_FLOAT [[{{node factors}}]]",
    ),
    "tensorflow_function": (
        "Graph execution error:\n\nDetected at node div defined at (most recent call last):\n<stack traces unavailable>\nInteger division by zero\n\t [[{{node div}}]]",
        "Integer division by zero [[{{node div}}]]",
    ),
    "tensorflow_operator": (
        ("Op type not registered 'Rblu' in binary running on vm. Make sure the Op and Kernel are registered in the binary running in this process. Note that if "
        "you are loading a saved graph which used ops from tf.contrib, accessing should be done before importing the graph."),
        "Op type not registered 'Rblu'",
    ),
    "treelite_file": (
        "Provided JSON could not be parsed as XGBoost model. Parsing error at offset 515: Miss exponent in number.\n2,4.446794E-1,-1.7254865E)1,\n~~~~~~~~~^~~~~~~",
        "Provided JSON could not be parsed as XGBoost model. Parsing error at offset 515: Miss exponent in number.",
    ),
    "plain": ("Guard failed: x.size()[1] == 2", "Guard failed: x.size()[1] == 2"),
    "own_words": ("RuntimeError: the model's own\n  words", "RuntimeError: the model's own words"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_the_reason_is_one_line_and_stands_first(name: str) -> None:
    text, line = SAID[name]
    assert reasons.said(RuntimeError(text)) == line


def test_a_failure_without_words_has_its_name() -> None:
    assert reasons.said(KeyError()) == "KeyError"
    assert reasons.said(MemoryError()) == "out of memory"
    assert reasons.said(MemoryError("std::bad_alloc")) == "out of memory (std::bad_alloc)"


def test_a_text_that_is_not_text_has_its_name() -> None:
    class OddError(Exception):
        def __str__(self) -> str:  # type: ignore[explicit-override]
            return b"\xff".decode()

    assert reasons.said(OddError()) == "OddError, whose text cannot be read"


def test_a_long_text_is_cut_off() -> None:
    line = reasons.said(RuntimeError("x" * 10_000))
    assert len(line) == reasons.LONGEST + 2


@pytest.mark.parametrize("name", [name for name in SAID if name.endswith(("_memory", "_run"))])
def test_lack_of_memory_is_explained(name: str) -> None:
    text, line = SAID[name]
    assert reasons.explained(RuntimeError(text)) == f"{line}: {reasons.MEMORY_HELP}"


@pytest.mark.parametrize("name", [name for name in SAID if name.endswith("_operator")])
def test_an_unknown_operator_is_explained_by_the_backend(name: str) -> None:
    text, line = SAID[name]
    found = reasons.explained(RuntimeError(text), operators="write it")
    assert found == f"{line.rstrip('.')}: write it"


def test_what_is_not_known_is_not_explained() -> None:
    assert reasons.explained(RuntimeError("no"), operators="write it") == "no"


LONG = {
    "blank lines": "\n" * 5_000_000,
    "lines without words": "---\n" * 2_000_000,
    "sources": "/onnxruntime_src/core/session.cc:1 a(" * 200_000,
    "checks": "Check '" * 1_000_000,
}


@pytest.mark.parametrize("filler", LONG.values(), ids=LONG.keys())
def test_of_megabytes_the_two_ends_are_read(filler: str) -> None:
    # All of it would take minutes, in which no other thread of the process goes on.
    line = reasons.said(ValueError(f"too large a value\n{filler}"))
    assert line.startswith("too large a value")
    assert len(line) <= reasons.LONGEST + 2


def test_a_reason_behind_megabytes_of_a_stack_is_found() -> None:
    stack = '  File "code/__torch__.py", line 10, in forward\n' * 200_000
    text = f"Traceback of TorchScript, original code (most recent call last):\n{stack}    ~~~ <--- HERE\nRuntimeError: it is too large\n"
    assert (
        reasons.said(RuntimeError(text)) == "it is too large (at code/__torch__.py:10 in forward)"
    )
