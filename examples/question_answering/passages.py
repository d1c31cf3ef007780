"""What is before and behind a BERT that answers questions: a question and a context become its inputs, its logits the answer.

The model in the server (`model.py`) and the transformer (`transformer.py`) use the same functions.
"""

import typing

import numpy as np
from wordpiece import Token, WordPiece

LENGTH = 64
"""Tokens that the network takes, three of them its own."""
LONGEST_ANSWER = 12
"""Tokens."""

INPUTS = ("input_ids", "input_mask", "segment_ids")
Numbers = np.ndarray[typing.Any, np.dtype[typing.Any]]


class Passage:
    """A question and the context in which its answer is.

    Raises:
        ValueError: both together are too long.
    """

    def __init__(self, tokenizer: WordPiece, context: str, question: str) -> None:
        asked, told = tokenizer.tokens(question), tokenizer.tokens(context)
        if len(asked) + len(told) + 3 > LENGTH:
            raise ValueError(
                f"the question has {len(asked)} tokens and the context {len(told)}; together they may have {LENGTH - 3}: send a shorter context"
            )
        self._context = context
        self._tokens = told
        self._begin = len(asked) + 2
        separator = tokenizer.ids["[SEP]"]
        ids = [tokenizer.ids["[CLS]"], *_ids(asked), separator, *_ids(told), separator]
        self.rows = {
            "input_ids": _padded(ids),
            "input_mask": _padded([1] * len(ids)),
            "segment_ids": _padded([0] * self._begin + [1] * (len(told) + 1)),
        }
        """The network's inputs, each an INT32 vector of LENGTH."""

    def answer(self, start_logits: Numbers, end_logits: Numbers) -> tuple[str, float]:
        """The likeliest span of the context, as it is written there, and its probability."""
        count = len(self._tokens)
        if not count:
            return "", 0.0
        inside = slice(self._begin, self._begin + count)
        starts, ends = _softmax(start_logits)[inside], _softmax(end_logits)[inside]
        spans = np.triu(np.outer(starts, ends)) - np.triu(np.outer(starts, ends), LONGEST_ANSWER)
        first, last = divmod(int(spans.argmax()), count)
        words = self._context[self._tokens[first].begin : self._tokens[last].end]
        return words, float(spans[first, last])


def stacked(passages: list[Passage]) -> dict[str, Numbers]:
    """The network's inputs for a batch."""
    return {name: np.stack([passage.rows[name] for passage in passages]) for name in INPUTS}


def _ids(tokens: list[Token]) -> list[int]:
    return [token.id for token in tokens]


def _padded(values: list[int]) -> Numbers:
    return np.array(values + [0] * (LENGTH - len(values)), np.int32)


def _softmax(logits: Numbers) -> Numbers:
    powers = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    shares: Numbers = powers / powers.sum()
    return shares
