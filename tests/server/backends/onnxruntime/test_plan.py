from collections.abc import Mapping
from typing import Any

import pytest

from naiad.backends.onnxruntime import plan as plans
from naiad.backends.onnxruntime.plan import GlobalThreads, Provider, SessionPlan
from naiad.config.model_config import Accelerator, InstanceKind, Optimization
from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.configs import model_config


def planned(
    *,
    kind: InstanceKind = InstanceKind.CPU,
    device_id: int = 0,
    options: Mapping[str, str] | None = None,
    **more: Any,
) -> SessionPlan:
    config = model_config(inputs=(), outputs=(), **more)
    return plans.plan_session(config, options or {}, kind=kind, device_id=device_id)


def gpu(**more: Any) -> Optimization:
    return Optimization(
        gpu_accelerators=tuple(
            Accelerator(name=name, parameters=parameters) for name, parameters in more.items()
        )
    )


SPINNING = (
    ("session.intra_op.spin_duration_us", "200"),
    ("session.inter_op.spin_duration_us", "200"),
)


def test_how_long_idle_threads_spin_is_bounded_unless_the_model_says_otherwise() -> None:
    plan = planned(parameters={"session.intra_op.spin_duration_us": "5000"})
    assert dict(plan.config_entries)["session.intra_op.spin_duration_us"] == "5000"


def test_a_config_that_says_nothing_gets_onnxruntimes_defaults_but_for_spinning() -> None:
    assert planned() == SessionPlan(
        graph_level="all",
        parallel=False,
        intra_op_threads=0,
        inter_op_threads=0,
        global_threads=None,
        memory_arena=None,
        memory_pattern=None,
        config_entries=SPINNING,
        run_entries=(),
        providers=(Provider(name="CPUExecutionProvider"),),
        op_libraries=(),
    )


@pytest.mark.parametrize(
    ("level", "planned_level"),
    [(-1, "basic"), (0, "all"), (1, "extended"), (2, "disable"), (7, "all")],
)
def test_the_graph_level_follows_tritons_numbers(level: int, planned_level: str) -> None:
    assert planned(optimization=Optimization(graph_level=level)).graph_level == planned_level


def test_thread_counts_come_from_the_model_before_the_backend_config() -> None:
    plan = planned(
        parameters={"intra_op_thread_count": "3"},
        options={"intra_op_thread_count": "5", "inter_op_thread_count": "2"},
    )
    assert (plan.intra_op_threads, plan.inter_op_threads) == (3, 2)
    assert plan.global_threads is None


def test_a_global_thread_pool_takes_its_sizes_from_the_backend_config_alone() -> None:
    plan = planned(
        parameters={"intra_op_thread_count": "3"},
        options={"enable-global-threadpool": "1", "intra_op_thread_count": "5"},
    )
    assert plan.global_threads == GlobalThreads(intra_op=5, inter_op=0)


def test_parameters_reach_the_session_and_its_runs() -> None:
    plan = planned(
        parameters={
            "execution_mode": "1",
            "enable_mem_arena": "0",
            "enable_mem_pattern": "True",
            "memory.enable_memory_arena_shrinkage": "cpu:0",
            "session.use_device_allocator_for_initializers": "1",
            "somebody_elses": "x",
        },
        op_library_filenames=("/ops/libmine.so",),
    )
    assert plan.parallel
    assert plan.memory_arena is False
    assert plan.memory_pattern is True
    entry = ("session.use_device_allocator_for_initializers", "1")
    assert plan.config_entries == (*SPINNING, entry)
    assert plan.run_entries == (("memory.enable_memory_arena_shrinkage", "cpu:0"),)
    assert plan.op_libraries == ("/ops/libmine.so",)


@pytest.mark.parametrize(
    ("parameters", "fragment"),
    [
        ({"execution_mode": "2"}, "Expected values for execution_mode are 0 or 1 but got 2"),
        ({"intra_op_thread_count": "many"}, "failed to convert 'many' to integral number"),
        ({"enable_mem_arena": "maybe"}, "failed to convert 'maybe' to boolean"),
    ],
)
def test_an_invalid_value_is_refused_with_its_parameter(
    parameters: dict[str, str], fragment: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        planned(parameters=parameters)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert fragment in caught.value.message
    assert next(iter(parameters)) in caught.value.message


def test_a_gpu_instance_runs_on_cuda_on_its_device_with_the_cpu_behind() -> None:
    plan = planned(kind=InstanceKind.GPU, device_id=3)
    assert plan.providers == (
        Provider(name="CUDAExecutionProvider", options={"device_id": "3"}),
        Provider(name="CPUExecutionProvider"),
    )


def test_cuda_options_come_from_the_accelerator_and_from_the_older_parameters() -> None:
    plan = planned(
        kind=InstanceKind.GPU,
        optimization=gpu(
            cuda={"cudnn_conv_use_max_workspace": "0", "use_ep_level_unified_stream": "true"}
        ),
        parameters={
            "cudnn_conv_algo_search": "1",
            "arena_extend_strategy": "1",
            "gpu_mem_limit": "4294967296",
            "do_copy_in_default_stream": "false",
        },
    )
    assert plan.providers[0].options == {
        "cudnn_conv_use_max_workspace": "0",
        "use_ep_level_unified_stream": "1",
        "cudnn_conv_algo_search": "HEURISTIC",
        "arena_extend_strategy": "kSameAsRequested",
        "gpu_mem_limit": "4294967296",
        "do_copy_in_default_stream": "0",
        "device_id": "0",
    }


def test_a_cuda_graph_may_be_switched_off() -> None:
    plan = planned(kind=InstanceKind.GPU, optimization=gpu(cuda={"enable_cuda_graph": "0"}))
    assert plan.providers[0].options == {"enable_cuda_graph": "0", "device_id": "0"}


def test_tensorrt_goes_before_cuda_with_its_parameters_translated() -> None:
    plan = planned(
        kind=InstanceKind.GPU,
        device_id=1,
        optimization=gpu(
            tensorrt={
                "precision_mode": "FP16",
                "max_workspace_size_bytes": "1073741824",
                "int8_calibration_table_name": "t",
                "int8_use_native_calibration_table": "no".replace("no", "0"),
                "trt_engine_cache_enable": "true",
                "trt_engine_cache_path": "/cache",
                "trt_builder_optimization_level": "4",
            }
        ),
    )
    assert [provider.name for provider in plan.providers] == [
        "TensorrtExecutionProvider",
        "CUDAExecutionProvider",
        "CPUExecutionProvider",
    ]
    assert plan.providers[0].options == {
        "trt_fp16_enable": "True",
        "trt_max_workspace_size": "1073741824",
        "trt_int8_calibration_table_name": "t",
        "trt_int8_use_native_calibration_table": "False",
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": "/cache",
        "trt_builder_optimization_level": "4",
        "device_id": "1",
    }


@pytest.mark.parametrize(
    ("optimization", "fragment"),
    [
        (gpu(openvino={}), "unknown Execution Accelerator 'openvino' is requested"),
        (
            gpu(tensorrt={"trt_speed": "11"}),
            "unknown parameter 'trt_speed' is provided for TensorRT",
        ),
        (gpu(tensorrt={"precision_mode": "FP8"}), "unsupported precision mode 'FP8'"),
        (gpu(tensorrt={"trt_dla_core": "x"}), "failed to convert 'x' to integral number"),
        (
            gpu(cuda={"enable_cuda_graph": "1"}),
            "parameter 'enable_cuda_graph' of the cuda accelerator of model 'm' is not supported: CUDA graphs need",
        ),
        (
            gpu(tensorrt={"trt_cuda_graph_enable": "true"}),
            "'trt_cuda_graph_enable' of the tensorrt accelerator",
        ),
    ],
)
def test_an_accelerator_that_does_not_exist_is_refused(
    optimization: Optimization, fragment: str
) -> None:
    with pytest.raises(InferenceError, match=fragment):
        planned(kind=InstanceKind.GPU, optimization=optimization)


def test_gpu_accelerators_do_not_touch_cpu_instances() -> None:
    assert planned(optimization=gpu(tensorrt={"trt_speed": "11"})).providers == (
        Provider(name="CPUExecutionProvider"),
    )


def test_a_wrong_choice_of_cuda_parameters_lists_the_right_ones() -> None:
    with pytest.raises(
        InferenceError, match=r"use 0 \(EXHAUSTIVE\), 1 \(HEURISTIC\), 2 \(DEFAULT\)"
    ):
        planned(kind=InstanceKind.GPU, parameters={"cudnn_conv_algo_search": "3"})


def test_openvino_is_the_cpus_accelerator() -> None:
    optimization = Optimization(cpu_accelerators=(Accelerator(name="openvino"),))
    assert planned(optimization=optimization).providers == (
        Provider(name="OpenVINOExecutionProvider", options={"device_type": "CPU"}),
        Provider(name="CPUExecutionProvider"),
    )
    with pytest.raises(InferenceError, match="unknown Execution Accelerator 'cuda'"):
        planned(optimization=Optimization(cpu_accelerators=(Accelerator(name="cuda"),)))


def test_a_provider_that_the_installed_build_lacks_is_named_with_the_package_that_has_it() -> None:
    plan = planned(kind=InstanceKind.GPU)
    with pytest.raises(InferenceError, match="CUDAExecutionProvider") as caught:
        plans.require_providers(plan, ["CPUExecutionProvider"], model="m")
    assert "[server-gpu]" in caught.value.message
    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    plans.require_providers(plan, available, model="m")
