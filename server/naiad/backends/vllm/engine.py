"""vllm's engine, as this backend uses it: the one place that knows vllm's modules, classes and errors. Importing this imports no vllm.

The names are those of vllm 0.33 (vllm-project/vllm at 00080ee): `vllm/engine/arg_utils.py` (AsyncEngineArgs),
`vllm/v1/engine/async_llm.py` (AsyncLLM: from_engine_args, generate, check_health, errored, dead_error, shutdown),
`vllm/v1/engine/exceptions.py` (EngineDeadError), `vllm/sampling_params.py` (SamplingParams, RequestOutputKind), `vllm/lora/request.py` (LoRARequest).
An AsyncLLM that is made without a running loop starts its own task with the first request, in the loop that this runs in.
"""

import dataclasses
import importlib
import pathlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from naiad.backends.vllm import engine_arguments
from naiad.backends.vllm.engine_arguments import EngineArguments
from naiad.backends.vllm.sampling import Sampling, sampling_params

_CLIENT_ERRORS = frozenset(("VLLMClientError", "VLLMValidationError"))
_DEAD_ERROR = "EngineDeadError"

_LONGEST = 1 << 20
"""The most tokens per request where the engine does not say how many it may have."""


class Engine:
    """A running engine.

    Args:
        model: the model's name, for messages.
        folder: the version's folder, for messages.
        arguments: of the engine.

    Raises:
        InferenceError: vllm is not installed, or has no such argument.
        Exception: whatever vllm raises when it cannot start.
    """

    def __init__(self, model: str, folder: pathlib.Path, arguments: EngineArguments) -> None:
        try:
            module = importlib.import_module("vllm.engine.arg_utils")
        except ModuleNotFoundError as error:
            if error.name != engine_arguments.PACKAGE:
                raise
            raise engine_arguments.not_installed(model) from None
        args_class: Any = module.AsyncEngineArgs
        known = {field.name for field in dataclasses.fields(args_class) if field.init}
        engine_arguments.check_known(model, folder, arguments, known)
        sampling = importlib.import_module("vllm.sampling_params")
        self._params_class: Any = sampling.SamplingParams
        self._new_only: Any = sampling.RequestOutputKind.DELTA
        self._adapter_class: Any = importlib.import_module("vllm.lora.request").LoRARequest
        engine_class: Any = importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM
        self._engine: Any = engine_class.from_engine_args(args_class(**arguments.values))

    def params(self, sampling: Sampling) -> Any:
        """The engine's sampling parameters of a request, with which it hands over what is new each time.

        Raises:
            WrongRequestError: they are wrong.
        """
        params = sampling_params(self._params_class, sampling)
        params.output_kind = self._new_only
        return params

    def generate(
        self,
        prompt: Any,
        params: Any,
        request_id: str,
        *,
        adapter: str,
        adapters: Mapping[str, str],
    ) -> AsyncGenerator[Any, None]:
        """Make tokens: gives vllm's `RequestOutput`s. Closing it, or cancelling the task that reads it, aborts the request in the engine."""
        lora = None
        if adapter:
            number = list(adapters).index(adapter) + 1
            lora = self._adapter_class(
                lora_name=adapter, lora_int_id=number, lora_path=adapters[adapter]
            )
        made: AsyncGenerator[Any, None] = self._engine.generate(
            prompt, params, request_id, lora_request=lora
        )
        return made

    async def check_health(self) -> None:
        """Raise the engine's error if it is not healthy."""
        await self._engine.check_health()

    def is_dead(self, error: "BaseException | None" = None) -> bool:
        """Whether the engine has died, by itself or by an error that it raised."""
        return bool(self._engine.errored) or type(error).__name__ == _DEAD_ERROR

    def is_refusal(self, error: BaseException) -> bool:
        """Whether an error is the fault of the request: a prompt that is too long, parameters that exclude each other."""
        names = {each.__name__ for each in type(error).__mro__}
        return isinstance(error, ValueError) or bool(names & _CLIENT_ERRORS)

    def dead_error(self) -> BaseException:
        """Why it died, as far as it says."""
        error: BaseException = self._engine.dead_error
        return error

    def longest(self) -> int:
        """The largest number of tokens of a request, its prompt included."""
        config = getattr(self._engine, "model_config", None)
        return int(getattr(config, "max_model_len", _LONGEST))

    def shutdown(self) -> None:
        """End it with its processes."""
        self._engine.shutdown()
