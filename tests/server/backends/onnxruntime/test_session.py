"""Loading an ONNX model: its file, its sessions and who shares them, what the installed onnxruntime can do (rows 16.8-16.11)."""

import concurrent.futures
import pathlib

import onnxruntime
import pytest
from onnx import TensorProto, helper

from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceGroup, InstanceKind, Optimization
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.configs import model_config, run, spec, values
from tests.server.backends.graphs import (
    ADD_CONFIG,
    add,
    instance_of,
    load,
    value,
    write_add,
    write_graph,
)


def recorded_sessions(monkeypatch: pytest.MonkeyPatch) -> list[onnxruntime.InferenceSession]:
    """The sessions that are made from now on."""
    made: list[onnxruntime.InferenceSession] = []
    make = onnxruntime.InferenceSession

    def record(*arguments: object, **options: object) -> onnxruntime.InferenceSession:
        made.append(make(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(onnxruntime, "InferenceSession", record)
    return made


def test_cpu_instances_share_one_session_and_run_side_by_side(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = recorded_sessions(monkeypatch)
    model = load(write_add(tmp_path), ADD_CONFIG, clock=SystemClock())
    specs = [InstanceSpec(name=f"m_0_{k}", kind=InstanceKind.CPU, device_id=0) for k in range(3)]
    instances = [model.make_instance(each) for each in specs]

    def work(k: int) -> None:
        for i in range(50):
            (answer,) = run(instances[k], add([[i, k]], [[1, 1]]))
            assert values(answer)["SUM"] == [[i + 1, k + 1]]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert len(sessions) == 1
    for instance in instances:
        assert instance.ready()
        instance.close()
        assert not instance.ready()
    model.close()


def test_a_missing_file_is_unavailable_with_its_path(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InferenceError) as caught:
        load(tmp_path, ADD_CONFIG)
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert f"unable to find '{tmp_path / '1' / 'model.onnx'}'" in caught.value.message


def test_a_model_may_be_a_folder_that_holds_model_onnx(tmp_path: pathlib.Path) -> None:
    write_add(tmp_path)
    file = tmp_path / "1" / "model.onnx"
    content = file.read_bytes()
    file.unlink()
    file.mkdir()
    (file / "model.onnx").write_bytes(content)
    assert run(instance_of(tmp_path, ADD_CONFIG), add([[1, 2]], [[1, 2]]))[0].error is None


def test_a_broken_file_fails_to_load_with_onnxruntimes_reason_first(tmp_path: pathlib.Path) -> None:
    write_add(tmp_path)
    (tmp_path / "1" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(InferenceError) as caught:
        load(tmp_path, ADD_CONFIG)
    assert caught.value.message.startswith("[ONNXRuntimeError]")


def test_a_config_that_contradicts_the_model_does_not_load(tmp_path: pathlib.Path) -> None:
    config = model_config(inputs=ADD_CONFIG.inputs[:1], outputs=ADD_CONFIG.outputs)
    with pytest.raises(InferenceError, match="configuration expects 1 inputs, model provides 2"):
        load(write_add(tmp_path), config)


def test_gpu_instances_need_a_build_that_knows_gpus(tmp_path: pathlib.Path) -> None:
    group = InstanceGroup(name="g", kind=InstanceKind.GPU, count=1, gpus=(0,))
    config = model_config(
        inputs=ADD_CONFIG.inputs, outputs=ADD_CONFIG.outputs, instance_groups=(group,)
    )
    model = load(write_add(tmp_path), config)
    with pytest.raises(InferenceError, match=r"CUDAExecutionProvider.*\[server-gpu\]"):
        model.make_instance(InstanceSpec(name="g_0", kind=InstanceKind.GPU, device_id=0))


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_does_not_start_is_not_replaced_by_a_slow_cpu(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine whose driver is missing: the build has the provider, the session comes up without it."""
    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    group = InstanceGroup(name="g", kind=InstanceKind.GPU, count=1, gpus=(0,))
    config = model_config(
        inputs=ADD_CONFIG.inputs, outputs=ADD_CONFIG.outputs, instance_groups=(group,)
    )
    model = load(write_add(tmp_path), config)
    with pytest.raises(InferenceError) as caught:
        model.make_instance(InstanceSpec(name="g_0", kind=InstanceKind.GPU, device_id=0))
    assert "CUDAExecutionProvider did not start: " in caught.value.message
    assert "libonnxruntime_providers_cuda.so: cannot open shared object file" in (
        caught.value.message
    )
    assert "[server-gpu]' brings them" in caught.value.message


def test_the_error_of_a_provider_is_the_reason_and_is_not_printed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with an option that the provider does not know, or a broken context."""

    def refuse(*_: object) -> None:
        raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Unknown provider option: use_tf33")

    monkeypatch.setattr(onnxruntime.InferenceSession, "_create_inference_session", refuse)
    with pytest.raises(InferenceError) as caught:
        load(write_add(tmp_path), ADD_CONFIG)
    assert caught.value.message.startswith("[ONNXRuntimeError]")
    assert "Unknown provider option: use_tf33" in caught.value.message
    assert "(loading 'model.onnx' of model 'm')" in caught.value.message
    assert capsys.readouterr().out == ""


def test_a_custom_operator_library_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    config = model_config(
        inputs=ADD_CONFIG.inputs,
        outputs=ADD_CONFIG.outputs,
        op_library_filenames=("/nowhere/libmine.so",),
    )
    with pytest.raises(InferenceError, match=r"custom operator library '/nowhere/libmine.so'"):
        load(write_add(tmp_path), config)


def test_session_settings_are_accepted_by_onnxruntime(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = model_config(
        inputs=ADD_CONFIG.inputs,
        outputs=ADD_CONFIG.outputs,
        optimization=Optimization(graph_level=2),
        parameters={
            "execution_mode": "1",
            "intra_op_thread_count": "1",
            "inter_op_thread_count": "2",
            "enable_mem_arena": "0",
            "enable_mem_pattern": "0",
            "memory.enable_memory_arena_shrinkage": "",
            "session.intra_op.allow_spinning": "0",
        },
    )
    sessions = recorded_sessions(monkeypatch)
    instance = instance_of(write_add(tmp_path), config)
    assert values(run(instance, add([[1, 2]], [[1, 2]]))[0])["SUM"] == [[2, 4]]
    [session] = sessions
    options = session.get_session_options()
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 2)
    assert not options.enable_cpu_mem_arena
    assert not options.enable_mem_pattern
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_bf16_and_text_in_one_model_are_refused(tmp_path: pathlib.Path) -> None:
    write_graph(
        tmp_path,
        [helper.make_node("Identity", ["A"], ["C"]), helper.make_node("Identity", ["B"], ["D"])],
        [value("A", ["n", 1], TensorProto.BFLOAT16), value("B", ["n", 1], TensorProto.STRING)],
        [value("C", ["n", 1], TensorProto.BFLOAT16), value("D", ["n", 1], TensorProto.STRING)],
    )
    config = model_config(
        inputs=[spec("A", datatypes.BF16, (1,)), spec("B", datatypes.BYTES, (1,))],
        outputs=[spec("C", datatypes.BF16, (1,)), spec("D", datatypes.BYTES, (1,))],
    )
    with pytest.raises(InferenceError, match="BF16 and STRING"):
        load(tmp_path, config)
