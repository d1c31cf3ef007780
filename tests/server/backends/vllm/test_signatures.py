"""What the backend `vllm` uses of vllm, held against the real package where it is installed; the engine of the tests is held against that too."""

import dataclasses
import importlib
import importlib.util
import inspect
import pathlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from naiad.backends.vllm.engine_arguments import known_by_source

MADE_UP = pathlib.Path(__file__).parents[3] / "support" / "made_up_vllm"
REAL = importlib.util.find_spec("vllm") is not None

MODULES = (
    "vllm", "vllm.engine.arg_utils", "vllm.lora.request", "vllm.outputs", "vllm.sampling_params", "vllm.v1.engine.async_llm",
    "vllm.v1.engine.exceptions",
)  # fmt: skip


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the tests' package; those of an installed one are kept out meanwhile."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_vllm(name)}
    monkeypatch.syspath_prepend(MADE_UP)
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        for name in [name for name in sys.modules if _is_vllm(name)]:
            del sys.modules[name]
        sys.modules.update(kept)


def _is_vllm(name: str) -> bool:
    return name.partition(".")[0] == "vllm"


def parameters(function: Any) -> dict[str, Any]:
    return {each.name: each.kind for each in inspect.signature(function).parameters.values()}


def check(modules: dict[str, ModuleType]) -> None:
    """What `naiad.backends.vllm` calls and reads is there, under these names and taken in these ways."""
    arguments = modules["vllm.engine.arg_utils"].AsyncEngineArgs
    fields = {field.name: field.init for field in dataclasses.fields(arguments)}
    assert {"model", "tokenizer", "tensor_parallel_size", "pipeline_parallel_size", "enable_lora", "disable_log_stats"} <= fields.keys()  # fmt: skip
    engine = modules["vllm.v1.engine.async_llm"].AsyncLLM
    assert "engine_args" in parameters(engine.from_engine_args)
    assert inspect.isasyncgenfunction(engine.generate)
    taken = parameters(engine.generate)
    assert list(taken)[1:4] == ["prompt", "sampling_params", "request_id"]
    assert "lora_request" in taken
    assert inspect.iscoroutinefunction(engine.check_health)
    assert not inspect.iscoroutinefunction(engine.shutdown)
    assert isinstance(engine.errored, property)
    assert isinstance(engine.dead_error, property)
    assert issubclass(modules["vllm.v1.engine.exceptions"].EngineDeadError, Exception)
    sampling = modules["vllm.sampling_params"]
    assert {"n", "temperature", "max_tokens", "logprobs", "stop", "output_kind"} <= set(
        sampling.SamplingParams.__struct_fields__
    )
    assert sampling.RequestOutputKind.DELTA
    adapter = parameters(modules["vllm.lora.request"].LoRARequest)
    assert {"lora_name", "lora_int_id", "lora_path"} <= adapter.keys()
    outputs = modules["vllm.outputs"]
    assert {"prompt_token_ids", "outputs", "finished"} <= parameters(outputs.RequestOutput).keys()
    completion = {field.name for field in dataclasses.fields(outputs.CompletionOutput)}
    assert {"index", "text", "token_ids", "cumulative_logprob", "logprobs", "finish_reason"} <= completion  # fmt: skip


def test_the_engine_of_the_tests_has_what_the_backend_uses(made_up: dict[str, ModuleType]) -> None:
    check(made_up)


def test_the_arguments_of_an_engine_are_seen_without_importing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(MADE_UP)
    if REAL:
        pytest.skip("vllm is installed, and found before that of the tests")
    known = known_by_source()
    assert {"model", "max_num_seqs", "enable_log_requests"} <= known
    assert not any(map(_is_vllm, sys.modules))


@pytest.mark.skipif(
    not REAL, reason="vllm is not installed: it needs a GPU, and a torch of its own"
)
class TestTheRealPackage:
    def modules(self) -> dict[str, ModuleType]:
        return {name: importlib.import_module(name) for name in MODULES}

    def test_it_has_what_the_backend_uses(self) -> None:
        check(self.modules())

    def test_its_arguments_are_seen_in_its_source(self) -> None:
        arguments = self.modules()["vllm.engine.arg_utils"].AsyncEngineArgs
        fields = {field.name for field in dataclasses.fields(arguments) if field.init}
        assert known_by_source() == fields

    def test_the_engine_of_the_tests_takes_nothing_that_it_does_not(
        self, made_up: dict[str, ModuleType]
    ) -> None:
        ours = {name: vars(module) for name, module in made_up.items()}
        for name in [name for name in sys.modules if _is_vllm(name)]:
            del sys.modules[name]
        sys.path.remove(str(MADE_UP))
        real = self.modules()
        for module, names in ours.items():
            for name in names:
                if inspect.isclass(names[name]) and names[name].__module__ == module:
                    theirs = getattr(real[module], name, None)
                    assert theirs is not None or name in {"Logprob", "_Request"}, name
        engine = real["vllm.v1.engine.async_llm"].AsyncLLM
        for method in ("from_engine_args", "generate", "abort", "check_health", "shutdown"):
            mine = parameters(getattr(ours["vllm.v1.engine.async_llm"]["AsyncLLM"], method))
            assert mine.items() <= parameters(getattr(engine, method)).items()
