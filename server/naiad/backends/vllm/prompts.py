"""What a request asks of a language model: its inputs, read and checked. The rules are those of Triton's vllm backend (src/utils/request.py)."""

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from naiad.backends.vllm.sampling import Sampling, WrongRequestError, read_sampling

_RETURNED = (
    "finish_reason", "cumulative_logprob", "logprobs", "num_input_tokens", "num_output_tokens",
)  # fmt: skip


class Asked(NamedTuple):
    """What a request asks for.

    Attributes:
        text: the prompt.
        images: Pillow images that belong to it.
        stream: each piece of text is a response of its own; else there is one response.
        repeats_prompt: the one response begins with the prompt.
        sampling: how tokens are chosen.
        returned: names of the outputs that it wants besides the text.
    """

    text: str
    images: Sequence[Any]
    stream: bool
    repeats_prompt: bool
    sampling: Sampling
    returned: "frozenset[str]"

    @property
    def prompt(self) -> Any:
        """The prompt as the engine takes it (vllm/inputs: TextPrompt)."""
        if not self.images:
            return self.text
        return {"prompt": self.text, "multi_modal_data": {"image": list(self.images)}}


def read_request(request: Any, adapters: Mapping[str, str]) -> Asked:
    """Read a request of `triton_python_backend_utils`.

    Raises:
        WrongRequestError: an input or a parameter is wrong; the message names it.
    """
    tensors = {tensor.name(): tensor for tensor in request.inputs()}
    text = _text(tensors, "text_input")
    if text is None:
        raise WrongRequestError("the input 'text_input' is missing: it holds the prompt")
    stream = _flag(tensors, "stream") or False
    excluded = _flag(tensors, "exclude_input_in_output")
    if stream and excluded is False:
        raise WrongRequestError(
            "'exclude_input_in_output' is false and 'stream' is true: a stream never begins with its prompt, so leave the first one out"
        )
    given = _text(tensors, "sampling_parameters")
    sampling = (
        read_sampling(request.parameters(), "the request's parameters", adapters)
        if given is None
        else read_sampling(given, "'sampling_parameters'", adapters)
    )
    return Asked(
        text=text,
        images=_images(tensors),
        stream=stream,
        repeats_prompt=not stream and not excluded,
        sampling=sampling,
        returned=frozenset(name for name in _RETURNED if _flag(tensors, f"return_{name}")),
    )


def _first(tensors: "dict[str, Any]", name: str) -> Any:
    tensor = tensors.get(name)
    if tensor is None:
        return None
    values = tensor.as_numpy().reshape(-1)
    if len(values) != 1:
        raise WrongRequestError(f"the input '{name}' has {len(values)} elements: give it one")
    return values[0]


def _text(tensors: "dict[str, Any]", name: str) -> "str | None":
    value = _first(tensors, name)
    return None if value is None else _decoded(name, value)


def _decoded(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WrongRequestError(f"the input '{name}' is not UTF-8: {error}") from None


def _flag(tensors: "dict[str, Any]", name: str) -> "bool | None":
    value = _first(tensors, name)
    return None if value is None else bool(value)


def _images(tensors: "dict[str, Any]") -> "list[Any]":
    """Images, each in base64, in any format that Pillow reads."""
    tensor = tensors.get("image")
    if tensor is None or not tensor.as_numpy().size:
        return []
    from PIL import Image  # noqa: PLC0415 - vllm brings it; for requests with images only

    images: list[Any] = []
    for index, value in enumerate(tensor.as_numpy().reshape(-1)):
        try:
            data = base64.b64decode(_decoded("image", value), validate=True)
            with Image.open(io.BytesIO(data)) as image:
                images.append(image.convert("RGB"))
        except (binascii.Error, ValueError, OSError, Image.DecompressionBombError) as error:
            raise WrongRequestError(
                f"element {index} of the input 'image' is not an image in base64: {error}"
            ) from None
    return images
