"""What a request gets: the engine's outputs as they come, made into the output tensors of one response or of many.

The engine is asked for what is new each time (`RequestOutputKind.DELTA`). Outputs of several sequences (`n` above 1) may come one by one, each
with its `index` (vllm/outputs.py: CompletionOutput); a response has an element for each sequence, which is empty where there is nothing new.
"""

import json
from typing import Any

import numpy as np

from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.tensor import Tensor
from naiad.backends.vllm.prompts import Asked


class _Sequence:
    """One of the texts of a request: what of it was not sent yet."""

    __slots__ = ("cumulative_logprob", "finish_reason", "logprobs", "texts", "tokens")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.tokens = 0
        self.logprobs: list[Any] | None = None
        self.cumulative_logprob: float | None = None
        self.finish_reason: str | None = None

    def add(self, output: Any) -> None:
        """What the engine has made since."""
        self.texts.append(output.text)
        self.tokens += len(output.token_ids)
        if output.logprobs is not None:
            self.logprobs = [*(self.logprobs or ()), *map(_plain, output.logprobs)]
        self.cumulative_logprob = output.cumulative_logprob
        self.finish_reason = output.finish_reason

    def sent(self) -> None:
        """All of it is in a response."""
        self.texts = []
        self.tokens = 0
        if self.logprobs is not None:
            self.logprobs = []


class Answer:
    """What a request has got so far.

    Attributes:
        prompt_tokens: tokens of the prompt; 0 before the engine says it.
        tokens: tokens that were made, of all sequences.
    """

    def __init__(self, asked: Asked, sequences: int) -> None:
        self._asked = asked
        self._sequences = [_Sequence() for _ in range(sequences)]
        self.prompt_tokens = 0
        self.tokens = 0

    def add(self, output: Any) -> int:
        """An output of the engine (vllm's `RequestOutput`) came; gives how many tokens are new."""
        if output.prompt_token_ids:
            self.prompt_tokens = len(output.prompt_token_ids)
        new = 0
        for each in output.outputs:
            while each.index >= len(self._sequences):
                self._sequences.append(_Sequence())
            self._sequences[each.index].add(each)
            new += len(each.token_ids)
        self.tokens += new
        return new

    def response(self) -> InferenceResponse:
        """A response with what came since the one before."""
        prefix = self._asked.text if self._asked.repeats_prompt else ""
        made = self._sequences
        tensors = [_texts("text_output", [prefix + "".join(each.texts) for each in made])]
        returned = self._asked.returned
        if "finish_reason" in returned:
            tensors.append(_texts("finish_reason", [str(each.finish_reason) for each in made]))
        if "cumulative_logprob" in returned:
            values = [each.cumulative_logprob for each in made]
            tensors.append(Tensor("cumulative_logprob", np.array(values, np.float32)))
        if "logprobs" in returned:
            tensors.append(_texts("logprobs", [json.dumps(each.logprobs) for each in made]))
        if "num_input_tokens" in returned:
            tensors.append(Tensor("num_input_tokens", np.array([self.prompt_tokens], np.uint32)))
        if "num_output_tokens" in returned:
            counts = [each.tokens for each in made]
            tensors.append(Tensor("num_output_tokens", np.array(counts, np.uint32)))
        for each in made:
            each.sent()
        return InferenceResponse(tensors)


def _texts(name: str, texts: "list[str]") -> Tensor:
    values = np.empty(len(texts), np.object_)
    # A piece of text may end within a pair of surrogates, which UTF-8 does not have.
    values[:] = [text.encode("utf-8", "replace") for text in texts]
    return Tensor(name, values)


def _plain(position: Any) -> "dict[str, Any]":
    """The tokens of a position with their logprobs (vllm/logprobs.py: Logprob), as Triton's backend writes them."""
    return {
        str(token): {
            "logprob": each.logprob,
            "rank": each.rank,
            "decoded_token": each.decoded_token,
        }
        for token, each in position.items()
    }
