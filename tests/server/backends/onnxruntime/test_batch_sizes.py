"""Which sizes batches are filled up to, in which order sessions for them are made, and when no more are: with numbers."""

import pytest

from naiad.backends.filled_sizes import Fill, fill_of, parse, size_for, sizes_of
from naiad.backends.onnxruntime.batch_sizes import (
    LOAD_LIMIT_NS,
    Memory,
    Progress,
    in_order,
    reason_to_stop,
    runs_of,
)
from naiad.config.model_config import DynamicBatching, ModelConfig
from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.configs import model_config

ON = Fill(mode="on")
GIB = 1 << 30


def config(
    max_batch_size: int, *, preferred: tuple[int, ...] = (), batching: bool = True, value: str = ""
) -> ModelConfig:
    return model_config(
        inputs=[],
        outputs=[],
        max_batch_size=max_batch_size,
        dynamic_batching=DynamicBatching(preferred_batch_sizes=preferred) if batching else None,
        parameters={"naiad.fill_batches": value} if value else {},
    )


@pytest.mark.parametrize(
    ("max_batch_size", "sizes"),
    [
        (2, (1, 2)),
        (16, (1, 2, 4, 8, 16)),
        (24, (1, 2, 4, 8, 16, 24)),
        (100, (1, 2, 4, 8, 16, 32, 64, 100)),
        (128, (1, 2, 4, 8, 16, 32, 64, 128)),
        (256, (1, 4, 8, 16, 32, 64, 128, 256)),
        (1000, (1, 16, 32, 64, 128, 256, 512, 1000)),
    ],
)
def test_sizes_are_powers_of_two_and_the_largest_batch_and_at_most_eight(
    max_batch_size: int, sizes: tuple[int, ...]
) -> None:
    assert sizes_of(config(max_batch_size), Fill(), pays=True) == sizes


def test_preferred_sizes_take_the_place_of_powers_of_two() -> None:
    assert sizes_of(config(16, preferred=(4, 12)), ON, pays=False) == (1, 4, 12, 16)
    assert sizes_of(config(16, preferred=(16,)), ON, pays=False) == (1, 2, 4, 8, 16)


def test_sizes_of_the_administrator_are_taken_up_to_the_largest_batch() -> None:
    assert sizes_of(config(16), parse("8,1"), pays=False) == (1, 8, 16)
    assert sizes_of(config(4), parse("1,8,32"), pays=False) == (1, 4)


@pytest.mark.parametrize(
    ("made", "fill", "pays"),
    [
        (config(16), Fill(), False),  # no convolutions, or not on CUDA
        (config(16), parse("off"), True),
        (config(16, batching=False), Fill(), True),  # rows of clients are not mixed
        (config(1), Fill(), True),
        (config(0), ON, True),
    ],
)
def test_batches_are_left_alone_where_filling_does_not_pay_or_rows_are_not_mixed(
    made: ModelConfig, fill: Fill, *, pays: bool
) -> None:
    assert sizes_of(made, fill, pays=pays) == ()


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (2, 4), (4, 4), (5, 16), (16, 16), (17, 16)])
def test_a_batch_goes_to_the_next_larger_size(rows: int, size: int) -> None:
    assert size_for((1, 4, 16), rows) == size


# Milliseconds on a GPU, where few rows cost little less, and on a CPU, where each row costs the same.
GPU = {1: 6, 2: 6, 4: 7, 8: 8, 16: 12, 32: 22}
CPU = {1: 11, 2: 21, 4: 41, 8: 81, 16: 161, 32: 321}


@pytest.mark.parametrize(
    ("rows", "on_gpu", "on_cpu"),
    [
        (1, (1,), (1,)),
        (3, (4,), (2, 1)),
        (12, (16,), (8, 4)),
        (17, (16, 1), (16, 1)),
        (20, (16, 4), (16, 4)),
        (21, (32,), (16, 4, 1)),
        (24, (32,), (16, 8)),
        (25, (32,), (16, 8, 1)),
        (31, (32,), (32,)),
        (32, (32,), (32,)),
    ],
)
def test_a_batch_is_split_where_several_runs_are_faster_than_a_filled_one(
    rows: int, on_gpu: tuple[int, ...], on_cpu: tuple[int, ...]
) -> None:
    assert runs_of(rows, GPU) == on_gpu
    assert runs_of(rows, CPU) == on_cpu


def test_a_batch_of_a_size_is_never_split() -> None:
    assert runs_of(32, {16: 1, 32: 100}) == (32,)
    assert runs_of(31, {16: 1, 32: 100}) == (16, 16)


def test_no_batch_is_split_where_times_are_not_known() -> None:
    assert runs_of(17, dict.fromkeys(GPU, 0)) == (32,)


def test_the_largest_session_is_made_first_then_the_smallest_then_the_others_from_above() -> None:
    assert in_order((1, 2, 4, 8, 16)) == (16, 1, 8, 4, 2)
    assert in_order((1, 2)) == (2, 1)
    assert in_order((4,)) == (4,)


def progress(
    *, spent_ns: int = 0, last_ns: int = 0, extra_bytes: int = 0, memory: Memory | None = None
) -> Progress:
    return Progress(
        spent_ns=spent_ns, last_ns=last_ns, last_bytes=GIB, extra_bytes=extra_bytes, memory=memory
    )


def test_sessions_are_made_while_three_tenths_of_the_memory_stay_free() -> None:
    assert not reason_to_stop(progress(memory=Memory(25 * GIB, 80 * GIB)))
    why = reason_to_stop(progress(memory=Memory(25 * GIB - 1, 80 * GIB)))
    assert why == (
        "another one of about 1024 MiB would leave less than 30% of the device's memory free (25599 of 81920 MiB are)"
    )
    assert not reason_to_stop(progress())


def test_all_sessions_but_the_first_take_a_tenth_of_the_memory() -> None:
    memory = Memory(70 * GIB, 80 * GIB)
    assert not reason_to_stop(progress(extra_bytes=7 * GIB, memory=memory))
    assert reason_to_stop(progress(extra_bytes=7 * GIB + 1, memory=memory)) == (
        "another one of about 1024 MiB would exceed 10% of the device's memory for all but the first (7168 of 81920 MiB are taken)"
    )


def test_sessions_are_made_for_a_minute_at_most() -> None:
    half = LOAD_LIMIT_NS // 2
    assert not reason_to_stop(progress(spent_ns=half, last_ns=half))
    assert reason_to_stop(progress(spent_ns=half, last_ns=half + 1)) == (
        "another one would exceed the 60 s that they may take"
    )


def test_the_models_parameter_counts_more_than_the_option() -> None:
    assert fill_of(config(16), {}) == Fill()
    assert fill_of(config(16), {"fill_batches": "ON"}) == ON
    assert fill_of(config(16, value="off"), {"fill_batches": "on"}).mode == "off"
    assert fill_of(config(16, value="4, 1"), {}).sizes == (1, 4)


def test_the_option_leaves_models_alone_whose_batches_are_not_formed_here() -> None:
    assert sizes_of(config(0), fill_of(config(0), {"fill_batches": "on"}), pays=False) == ()


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (
            config(16, value="yes"), {},
            "parameter naiad.fill_batches is 'yes': write auto, on, off, or numbers of rows such as 1,4,16",
        ),
        (config(16, value="0,4"), {}, "write auto, on, off, or numbers of rows"),
        (
            config(16), {"fill_batches": "1,x"},
            "--backend-config=onnxruntime,fill_batches is '1,x': write auto",
        ),
        (
            config(16, value="1,32"), {},
            "32 rows are more than max_batch_size (16): write sizes up to that",
        ),
        (
            config(16, value="on", batching=False), {},
            "but the config has no dynamic_batching, so that no batches of several requests are formed: write dynamic_batching { }",
        ),
        (config(0, value="on"), {}, "but max_batch_size is 0"),
    ],
)  # fmt: skip
def test_a_setting_that_can_have_no_effect_is_refused(
    made: ModelConfig, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        fill_of(made, options)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert message in caught.value.message
    assert "unable to load model 'm'" in caught.value.message
