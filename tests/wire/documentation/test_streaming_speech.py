"""Streaming speech as its tutorial shows it: many streams at once find the segments that the model finds in each stream alone."""

import asyncio
import collections.abc
import importlib.util
import pathlib
import re
import subprocess
import sys

import make_speech_model
import numpy as np
import onnxruntime
import pytest
import speech_client
import tritonclient.grpc.aio as aioclient
import tritonclient.http as httpclient
from speech_segments import Segment, segments_of
from speech_voices import RATE, Samples, voice

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.documentation.sample_files import ROOT

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("silero_vad") is None,
        reason="needs the package silero-vad, without its dependencies",
    ),
]

PAGE = ROOT / "docs/tutorials/streaming-speech.md"
STREAMS = 16
SECONDS = 4
"""Of each voice: its first sentence and the pause behind it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("speech")
    command = [
        sys.executable,
        str(ROOT / "examples/streaming_speech/make_speech_model.py"),
        "models",
    ]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    with ServerProcess(naiad_program(), [folder / "models"], log=folder / "log") as started:
        yield started


@pytest.fixture(scope="module")
def voices() -> list[Samples]:
    return [voice(seed)[: SECONDS * RATE] for seed in range(STREAMS)]


def alone(samples: Samples) -> list[float]:
    """What the package's own model says of each chunk of a stream, called without a server."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    file = make_speech_model.model_file().with_name("silero_vad.onnx")
    session = onnxruntime.InferenceSession(str(file), options)
    state = np.zeros((2, 1, 128), np.float32)
    context = np.zeros((1, make_speech_model.CONTEXT), np.float32)
    found: list[float] = []
    padded = np.pad(samples, (0, -len(samples) % speech_client.CHUNK))
    for chunk in padded.reshape(-1, 1, speech_client.CHUNK):
        given = {
            "input": np.concatenate([context, chunk], axis=1),
            "state": state,
            "sr": np.array(RATE),
        }
        probability, state = session.run(None, given)
        context = chunk[:, -make_speech_model.CONTEXT :]
        found.append(probability.item())
    return found


async def probabilities(url: str, streams: list[Samples]) -> list[list[float]]:
    """What the server says of all streams at once."""

    async def of(client: aioclient.InferenceServerClient, samples: Samples) -> list[float]:
        return [each async for each in speech_client.probabilities(client, samples)]

    async with aioclient.InferenceServerClient(url) as client:
        found: list[list[float]] = await asyncio.gather(*(of(client, each) for each in streams))
        return found


def test_streams_at_once_are_streams_alone(server: ServerProcess, voices: list[Samples]) -> None:
    found = asyncio.run(probabilities(server.grpc, voices))
    expected = [alone(samples) for samples in voices]
    for ours, theirs in zip(found, expected, strict=True):
        assert np.abs(np.array(ours) - np.array(theirs)).max() < 1e-4
    assert [segments_of(each) for each in found] == [segments_of(each) for each in expected]
    assert all(segments_of(each) for each in found)
    assert executions(server)["fills"] > 1  # requests of different streams have run together


def executions(server: ServerProcess) -> dict[str, float]:
    """How often the model has run, and how many rows it had on average."""
    with httpclient.InferenceServerClient(server.http) as client:
        (model,) = client.get_inference_statistics("silero_vad")["model_stats"]
    return {
        "executions": model["execution_count"],
        "fills": model["inference_count"] / model["execution_count"],
    }


def test_the_client_prints_the_segments_of_each_stream(
    server: ServerProcess, voices: list[Samples]
) -> None:
    script = ROOT / "examples/streaming_speech/speech_client.py"
    command = [sys.executable, str(script), "--url", server.grpc, "--streams", "3"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    first = Segment(*segments_of(alone(voice(0)))[0])
    assert lines[0].startswith(f"stream  0: {first.shown()}")
    assert re.fullmatch(r"\d+ s of audio in 3 streams took [\d.]+ s", lines[-1])


def test_the_page_shows_the_config_that_is_served() -> None:
    config = (ROOT / "examples/streaming_speech/config.pbtxt").read_text()
    assert f"```\n{config}```" in PAGE.read_text()


def test_a_recording_of_another_kind_is_refused_with_what_to_do(tmp_path: pathlib.Path) -> None:
    import wave  # noqa: PLC0415 - for this test only

    from speech_voices import read  # noqa: PLC0415

    path = tmp_path / "slow.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(bytes(100))
    with pytest.raises(
        ValueError, match=r"has 8000 Hz, 1 channels and 16 bits.*ffmpeg -i slow\.wav"
    ):
        read(path)
