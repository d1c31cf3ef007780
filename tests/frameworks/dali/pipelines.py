"""DALI pipelines and files for them. Importing this imports DALI."""

import collections.abc
import io
import pathlib
import wave
from typing import Any

import numpy as np
from nvidia import dali
from nvidia.dali import fn, types
from PIL import Image

Array = np.ndarray[Any, Any]

CODE = """
import nvidia.dali as dali
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.plugin.triton import autoserialize


@autoserialize
@dali.pipeline_def(batch_size=16, num_threads=1, device_id=0, output_dtype=[types.FLOAT, types.FLOAT], output_ndim=[2, 0])
def spectrogram():
    encoded = fn.external_source(device="cpu", name="WAV", dtype=types.UINT8, ndim=1)
    samples, rate = fn.decoders.audio(encoded, dtype=types.FLOAT, downmix=True)
    return fn.spectrogram(samples, nfft=512, window_length=400, window_step=160, center_windows=False), rate
"""
"""A WAV file to a spectrogram and its rate."""


def serialized(
    graph: collections.abc.Callable[[], Any], *, batch_size: int = 8, **more: Any
) -> bytes:
    """The pipeline that a function defines, on the CPU, with one thread."""
    define = dali.pipeline_def(graph)
    data: bytes = define(batch_size=batch_size, num_threads=1, device_id=None, **more).serialize()
    return data


def resized(size: int = 64, *, device: str = "cpu") -> bytes:
    """JPEG files to RGB images of one size, as Pillow's box filter makes them."""

    def graph() -> Any:
        encoded = fn.external_source(device="cpu", name="JPEG", dtype=types.UINT8, ndim=1)
        images = fn.decoders.image(encoded, device=device)
        return fn.resize(
            images,
            resize_x=size,
            resize_y=size,
            interp_type=types.INTERP_TRIANGULAR,
            antialias=True,
        )

    return serialized(graph, output_dtype=[types.UINT8], output_ndim=[3])


def decoded() -> bytes:
    """JPEG files to RGB images of their own sizes."""

    def graph() -> Any:
        encoded = fn.external_source(device="cpu", name="JPEG", dtype=types.UINT8, ndim=1)
        return fn.decoders.image(encoded)

    return serialized(graph, output_dtype=[types.UINT8], output_ndim=[3])


def sums(**more: Any) -> bytes:
    """A + B, and A."""

    def graph() -> Any:
        a = fn.external_source(device="cpu", name="A", **more)
        b = fn.external_source(device="cpu", name="B", **more)
        return a + b, a

    return serialized(graph)


def identity(dtype: Any = None, ndim: int | None = None) -> bytes:
    """X."""
    said = {key: value for key, value in (("dtype", dtype), ("ndim", ndim)) if value is not None}

    def graph() -> Any:
        return fn.copy(fn.external_source(device="cpu", name="X", **said))

    return serialized(graph)


def write(model: pathlib.Path, pipeline: bytes | str, config: str = "") -> pathlib.Path:
    """A model of version 1: serialised, or in Python; gives its folder."""
    (model / "1").mkdir(parents=True, exist_ok=True)
    if isinstance(pipeline, bytes):
        (model / "1" / "model.dali").write_bytes(pipeline)
    else:
        (model / "1" / "dali.py").write_text(pipeline)
    (model / "config.pbtxt").write_text(f'backend: "dali"\n{config}')
    return model


def jpeg(width: int, height: int, seed: int = 1, tint: int | None = None) -> Array:
    """A smooth image in a JPEG file: UINT8 [bytes]. `tint` is the channel that is bright, of red, green and blue."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), dtype=np.uint8)
    if tint is not None:
        small = small // 4
        small[:, :, tint] += 180
    file = io.BytesIO()
    Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(
        file, "JPEG", quality=95
    )
    return np.frombuffer(file.getvalue(), np.uint8)


def by_pillow(encoded: Array, size: int | None = None) -> Array:
    """What Pillow makes of a JPEG file: UINT8 [height, width, 3]."""
    image = Image.open(io.BytesIO(encoded.tobytes())).convert("RGB")
    if size is not None:
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image)


def wav(samples: int, rate: int = 16000) -> Array:
    """A tone in a WAV file: UINT8 [bytes]."""
    file = io.BytesIO()
    tone = (12000 * np.sin(np.arange(samples) * 0.2)).astype(np.int16)
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(tone.tobytes())
    return np.frombuffer(file.getvalue(), np.uint8)


def by_numpy(encoded: Array) -> Array:
    """The power spectrogram of a WAV file, as the pipeline of `CODE` has it: FP32 [257, windows]."""
    with wave.open(io.BytesIO(encoded.tobytes())) as reader:
        samples = np.frombuffer(reader.readframes(reader.getnframes()), np.int16) / 32768
    window = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(400) + 0.5) / 400)
    starts = range(0, len(samples) - 399, 160)
    frames = np.stack([samples[start : start + 400] * window for start in starts])
    return (np.abs(np.fft.rfft(frames, 512)) ** 2).T.astype(np.float32)
