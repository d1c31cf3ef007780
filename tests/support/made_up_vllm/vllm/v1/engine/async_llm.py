"""The engine: one loop that makes a word for every running request in each step, as vllm's scheduler makes a token.

A word is the prompt's next one, in capitals, from the first again after the last. Some prompts do something else:

* `forever …` is not ended by `max_tokens`;
* `together N` gets its next word only while N requests run: N requests at once end, fewer wait;
* `die` ends the engine with the second step, `dying` once it has its own last word;
* `sick` makes the engine unhealthy;
* `fail` raises in the engine, which lives on; `too long` is refused;
* `silent` gets no word at all.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from ...engine.arg_utils import AsyncEngineArgs, EngineArgs
from ...outputs import CompletionOutput, Logprob, RequestOutput
from ...sampling_params import RequestOutputKind, SamplingParams
from .exceptions import EngineDeadError, EngineGenerateError

_STEP_S = 0.001


class _Request:
    def __init__(self, text: str, params: SamplingParams, index: int) -> None:
        self.text = text
        self.params = params
        self.index = index
        self.words = text.split()
        self.made = 0
        self.outputs: asyncio.Queue[CompletionOutput | Exception] = asyncio.Queue()

    def next_word(self, running: int) -> str | None:
        """None: not in this step."""
        if self.words[0] == "silent" or (
            self.words[0] == "together" and running < int(self.words[1])
        ):
            return None
        word = self.words[self.made % len(self.words)].upper()
        self.made += 1
        return word if self.made == 1 else f" {word}"


class AsyncLLM:
    """See the module's docstring."""

    def __init__(self, vllm_config: EngineArgs) -> None:
        self.model_config = vllm_config
        if vllm_config.max_model_len is None:
            vllm_config.max_model_len = 4096
        self._most = vllm_config.max_num_seqs or 256
        self._requests: dict[str, list[_Request]] = {}
        self._dead = False
        self._sick = False
        self.output_handler: asyncio.Task[None] | None = None
        print(f"made-up engine: started with {vllm_config}", flush=True)

    @classmethod
    def from_engine_args(
        cls,
        engine_args: AsyncEngineArgs,
        start_engine_loop: bool = True,
        usage_context: Any = None,
        stat_loggers: Any = None,
    ) -> "AsyncLLM":
        return cls(engine_args.create_engine_config())

    def shutdown(self, timeout: float | None = None) -> None:
        print("made-up engine: shut down", flush=True)

    async def generate(
        self,
        prompt: Any,
        sampling_params: SamplingParams,
        request_id: str,
        *,
        prompt_text: str | None = None,
        lora_request: Any = None,
        tokenization_kwargs: Any = None,
        trace_headers: Any = None,
        priority: int = 0,
        data_parallel_rank: int | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        if self.errored:
            raise EngineDeadError
        text = _text_of(prompt, lora_request)
        if text.startswith("too long"):
            raise ValueError(
                "The decoder prompt (length 9999) is longer than the maximum model length of 4096."
            )
        if self.output_handler is None:
            self.output_handler = asyncio.create_task(self._run())
        parts = [_Request(text, sampling_params, index) for index in range(sampling_params.n)]
        outputs = parts[0].outputs
        for part in parts:
            part.outputs = outputs
        self._requests[request_id] = parts
        try:
            left = len(parts)
            while left:
                output = await outputs.get()
                if isinstance(output, EngineDeadError):
                    raise output
                if isinstance(output, Exception):
                    raise EngineGenerateError from output
                left -= output.finish_reason is not None
                ids = list(range(len(text.split())))
                yield RequestOutput(request_id, text, ids, None, [output], finished=not left)
        except (asyncio.CancelledError, GeneratorExit):
            await self.abort(request_id)
            raise

    async def abort(self, request_id: str | Iterable[str], internal: bool = False) -> None:
        self._requests.pop(str(request_id), None)
        print(f"made-up engine: aborted a request, {len(self._requests)} left", flush=True)

    async def check_health(self) -> None:
        if self.errored:
            raise self.dead_error
        if self._sick:
            raise RuntimeError("no heartbeat of the made-up worker")

    @property
    def errored(self) -> bool:
        return self._dead

    @property
    def dead_error(self) -> BaseException:
        return EngineDeadError()

    async def _run(self) -> None:
        while not self._dead:
            self._step()
            await asyncio.sleep(_STEP_S)

    def _step(self) -> None:
        running = list(self._requests.items())[: self._most]
        for request_id, parts in running:
            for part in list(parts):
                if part.words[0] == "fail":
                    part.outputs.put_nowait(RuntimeError("out of blocks"))
                    del self._requests[request_id]
                    break
                if part.words[0] == "die" and part.made == 1:
                    self._die()
                    return
                word = part.next_word(len(running))
                self._sick = self._sick or part.words[0] == "sick"
                if word is not None:
                    self._hand_over(part, word)
                    if _is_last(part):
                        parts.remove(part)
                        self._dead = part.words[0] == "dying"
            if not parts:
                self._requests.pop(request_id, None)

    def _hand_over(self, part: _Request, word: str) -> None:
        params = part.params
        assert params.output_kind is RequestOutputKind.DELTA
        logprobs = None if params.logprobs is None else [{7: Logprob(-0.5, 1, word)}]
        part.outputs.put_nowait(
            CompletionOutput(
                index=part.index,
                text=word,
                token_ids=[part.made],
                cumulative_logprob=None if logprobs is None else -0.5 * part.made,
                logprobs=logprobs,
                finish_reason="length" if _is_last(part) else None,
            )
        )

    def _die(self) -> None:
        self._dead = True
        for parts in self._requests.values():
            error = EngineDeadError()
            error.__cause__ = RuntimeError("CUDA error: the made-up device is gone")
            parts[0].outputs.put_nowait(error)


def _is_last(part: _Request) -> bool:
    return part.words[0] != "forever" and part.made == part.params.max_tokens


def _text_of(prompt: Any, lora_request: Any) -> str:
    text = prompt if isinstance(prompt, str) else prompt["prompt"]
    if not isinstance(prompt, str):
        sizes = [f"{image.width}x{image.height}" for image in prompt["multi_modal_data"]["image"]]
        text = " ".join((text, *sizes))
    if lora_request is not None:
        text = (
            f"{lora_request.lora_name} {lora_request.lora_int_id} {lora_request.lora_path} {text}"
        )
    return text
