"""`--backend-config`: what a word means, and which values are refused before a model is looked at."""

import collections.abc

import pytest

from naiad.backends.model_files.batch_size import default_max_batch_size
from naiad.backends.onnxruntime.plan import plan_session
from naiad.config.model_config import InstanceKind
from naiad.errors import InferenceError
from naiad.options.backend_config import BackendSetting, backend_setting
from naiad.options.usage import UsageError
from tests.server.backends.configs import model_config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("onnxruntime,host=process", BackendSetting("onnxruntime", "host", "process")),
        ("default-max-batch-size=8", BackendSetting("", "default-max-batch-size", "8")),
        ("python,wheel-dir=/a,b=c", BackendSetting("python", "wheel-dir", "/a,b=c")),
        ("onnxruntime,default-max-batch-size=-1", BackendSetting("onnxruntime", "default-max-batch-size", "-1")),
        ("onnxruntime,intra_op_thread_count=", BackendSetting("onnxruntime", "intra_op_thread_count", "")),
        ("onnxruntime,enable-global-threadpool=ON", BackendSetting("onnxruntime", "enable-global-threadpool", "ON")),
        ("onnxruntime,fill_batches=1,8,32", BackendSetting("onnxruntime", "fill_batches", "1,8,32")),
        ("python,environment-keep-days=0.5", BackendSetting("python", "environment-keep-days", "0.5")),
    ],
)  # fmt: skip
def test_a_word_is_one_setting_of_one_backend_or_of_all(
    text: str, expected: BackendSetting
) -> None:
    assert backend_setting(text) == expected


def test_a_setting_of_tritons_that_has_no_effect_says_why() -> None:
    setting = backend_setting("python,shm-region-prefix-name=x")
    assert setting.note.startswith(
        "--backend-config=python,shm-region-prefix-name has no effect here: tensors reach"
    )
    assert not backend_setting("onnxruntime,shm-region-prefix-name=x").note


@pytest.mark.parametrize("text", ["", "onnxruntime", "onnxruntime,host", "onnxruntime,=x", "=x"])
def test_the_error_of_an_invalid_setting_shows_its_form(text: str) -> None:
    with pytest.raises(UsageError, match="write BACKEND,KEY=VALUE, or KEY=VALUE for all backends"):
        backend_setting(text)


@pytest.mark.parametrize(
    ("text", "help_text"),
    [
        ("default-max-batch-size=abc", "write default-max-batch-size=4, or leave it out"),
        ("onnxruntime,default-max-batch-size=", "write onnxruntime,default-max-batch-size=4"),
        ("tensorflow,default-max-batch-size=4.0", "an integer up to 2147483647"),
        ("default-max-batch-size=2147483648", "an integer up to 2147483647"),
        ("python,host=proces", "'proces', expected thread or process: write python,host=process"),
        ("onnxruntime,intra_op_thread_count=all", "write onnxruntime,intra_op_thread_count=2"),
        ("inter_op_thread_count=1.5", "write inter_op_thread_count=2"),
        ("onnxruntime,enable-global-threadpool=yes", "true, on, 1, false, off or 0"),
        (
            "onnxruntime,fill_batches=yes",
            "auto, on, off or numbers of rows: write onnxruntime,fill_batches=auto",
        ),
        ("python,environment-keep-days=-1", "0 to keep environments for ever"),
        ("python,environment-keep-days=a week", "a number of days"),
        ("python,environment-keep-days=nan", "a number of days"),
    ],
)
def test_a_value_that_fits_no_model_is_refused_with_one_that_would(
    text: str, help_text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        backend_setting(text)
    message = str(caught.value)
    assert message.startswith(f"--backend-config={text}: ")
    assert help_text in message


@pytest.mark.parametrize(
    "text", ["python,intra_op_thread_count=all", "onnxruntime,environment-keep-days=x", "x,y=z"]
)
def test_what_no_backend_reads_passes(text: str) -> None:
    assert backend_setting(text).value


@pytest.mark.parametrize("value", ["4", "0", "-1", "", "abc", "4.0", " 7 "])
def test_the_batch_size_is_refused_here_exactly_where_a_model_would_fail(value: str) -> None:
    key = "default-max-batch-size"
    assert _passes(f"{key}={value}") == _works(lambda: default_max_batch_size({key: value}))


@pytest.mark.parametrize("key", ["intra_op_thread_count", "enable-global-threadpool"])
@pytest.mark.parametrize("value", ["4", "0", "-1", "", "abc", "on", "FALSE"])
def test_session_settings_are_refused_here_exactly_where_a_model_would_fail(
    key: str, value: str
) -> None:
    assert _passes(f"onnxruntime,{key}={value}") == _works(
        lambda: plan_session(
            model_config(inputs=(), outputs=()), {key: value}, kind=InstanceKind.CPU, device_id=0
        )
    )


def _passes(text: str) -> bool:
    try:
        backend_setting(text)
    except UsageError:
        return False
    return True


def _works(read: collections.abc.Callable[[], object]) -> bool:
    try:
        read()
    except InferenceError:
        return False
    return True
