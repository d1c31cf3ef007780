"""What the parameters of a PyTorch model ask for (rows 16.15, 16.17)."""

import pytest

from naiad.backends.pytorch.settings import Settings, settings_of
from naiad.errors import ErrorCode, InferenceError


def settings(**parameters: str) -> Settings:
    return settings_of("m", parameters, python_runtime=False)


def of_code(**parameters: str) -> Settings:
    return settings_of("m", parameters, python_runtime=True)


def test_nothing_is_changed_by_default() -> None:
    assert settings() == Settings()


def test_every_parameter_is_read() -> None:
    assert settings(
        DISABLE_OPTIMIZED_EXECUTION="true",
        INFERENCE_MODE="false",
        DISABLE_CUDNN="1",
        ENABLE_CACHE_CLEANING="True",
        ENABLE_JIT_EXECUTOR="0",
        ENABLE_JIT_PROFILING="true",
        ENABLE_TENSOR_FUSER="false",
        ENABLE_WEIGHT_SHARING="true",
        INTRA_OP_THREAD_COUNT="3",
        INTER_OP_THREAD_COUNT="2",
    ) == Settings(
        optimized_execution=False,
        inference_mode=False,
        cudnn=False,
        cache_cleaning=True,
        jit_executor=False,
        jit_profiling=True,
        tensor_fuser=False,
        intra_op_threads=3,
        inter_op_threads=2,
    )


def test_no_threads_is_the_default() -> None:
    assert settings(INTRA_OP_THREAD_COUNT="0", INTER_OP_THREAD_COUNT="-1") == Settings()


def test_the_python_runtime_has_one_thread_by_default() -> None:
    assert of_code() == Settings(intra_op_threads=1, inter_op_threads=1)
    told = of_code(NUM_THREADS="4", NUM_INTEROP_THREADS="2", INTRA_OP_THREAD_COUNT="7")
    assert (told.intra_op_threads, told.inter_op_threads) == (4, 2)


def test_arguments_of_compile_are_an_object() -> None:
    key = "TORCH_COMPILE_OPTIONAL_PARAMETERS"
    assert settings(**{key: '{"mode": "reduce-overhead"}'}).compile_parameters == {
        "mode": "reduce-overhead"
    }


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("INFERENCE_MODE", "yes", "failed to convert INFERENCE_MODE 'yes' to boolean value"),
        (
            "ENABLE_WEIGHT_SHARING",
            "",
            "failed to convert ENABLE_WEIGHT_SHARING '' to boolean value",
        ),
        (
            "INTRA_OP_THREAD_COUNT",
            "many",
            "failed to convert INTRA_OP_THREAD_COUNT 'many' to integral number",
        ),
        ("TORCH_COMPILE_OPTIONAL_PARAMETERS", "{", "is not JSON"),
        ("TORCH_COMPILE_OPTIONAL_PARAMETERS", "[1]", "must be a JSON object"),
        (
            "TORCH_COMPILE_OPTIONAL_PARAMETERS",
            '{"model": 1}',
            "'model' is not an optional parameter",
        ),
    ],
)
def test_other_values_are_refused(key: str, value: str, said: str) -> None:
    with pytest.raises(InferenceError) as caught:
        settings(**{key: value})
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert said in caught.value.message
    assert key in caught.value.message
    assert "'m'" in caught.value.message
