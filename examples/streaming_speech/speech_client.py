"""Sends many audio streams at once, each over a gRPC stream of its own, chunk by chunk, and prints the times of speech in each.

    pip install 'tritonclient[grpc]'
    python speech_client.py --streams 64
    python speech_client.py recording.wav other.wav --real-time

Without recordings it makes voices of numbers. The server keeps what the model remembers of each stream: a request holds 32 ms of audio and nothing else.
"""

import argparse
import asyncio
import collections.abc
import pathlib
import sys
import time
import typing
import uuid

import numpy as np
import tritonclient.grpc.aio as triton
from speech_segments import CHUNK_SECONDS, Segment, Segmenter
from speech_voices import RATE, Samples, read, voice

MODEL = "silero_vad"
CHUNK = 512
AHEAD = 4
"""Chunks that may be on their way at the same time, unless the stream is as fast as real audio."""


def main() -> int:
    """Run it; the exit status is 0 when there is speech in every stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="*", type=pathlib.Path, help="WAV files, 16 kHz mono")
    parser.add_argument("--url", default="localhost:8001", help="host:port of the server's gRPC")
    parser.add_argument("--streams", type=int, default=0, help="64, or one for each recording")
    parser.add_argument("--real-time", action="store_true", help="as a microphone would send")
    given = parser.parse_args()
    recordings = [read(path) for path in given.recordings]
    count = given.streams or len(recordings) or 64
    streams = [recordings[i % len(recordings)] if recordings else voice(i) for i in range(count)]
    started = time.perf_counter()
    found = asyncio.run(listen_to_all(given.url, streams, real_time=given.real_time))
    took = time.perf_counter() - started
    for number, segments in enumerate(found):
        print(f"stream {number:2}: {', '.join(each.shown() for each in segments) or 'silence'}")
    seconds = sum(map(len, streams)) / RATE
    print(f"{seconds:.0f} s of audio in {count} streams took {took:.1f} s")
    return 0 if all(found) else 1


async def listen_to_all(
    url: str, streams: collections.abc.Sequence[Samples], *, real_time: bool = False
) -> list[list[Segment]]:
    """The segments of each stream; all are sent at the same time."""
    async with triton.InferenceServerClient(url) as client:
        found: list[list[Segment]] = await asyncio.gather(
            *(listen(client, samples, real_time=real_time) for samples in streams)
        )
        return found


async def listen(
    client: triton.InferenceServerClient, samples: Samples, *, real_time: bool = False
) -> list[Segment]:
    """The segments of one stream.

    Raises:
        InferenceServerException: the server has refused a chunk.
    """
    segmenter = Segmenter()
    async for probability in probabilities(client, samples, real_time=real_time):
        segmenter.add(probability)
    return segmenter.finish()


async def probabilities(
    client: triton.InferenceServerClient, samples: Samples, *, real_time: bool = False
) -> collections.abc.AsyncIterator[float]:
    """The probability of speech in each chunk of a stream; the last one is filled up with silence.

    Raises:
        InferenceServerException: the server has refused a chunk.
    """
    chunks = np.pad(samples, (0, -len(samples) % CHUNK)).reshape(-1, 1, CHUNK)
    room = asyncio.Semaphore(len(chunks) if real_time else AHEAD)
    requests = requests_of(chunks, room, pause=CHUNK_SECONDS if real_time else 0)
    async for result, error in client.stream_infer(requests):
        if error is not None:
            raise error
        room.release()
        yield result.as_numpy("PROBABILITY").item()


async def requests_of(
    chunks: np.ndarray[typing.Any, np.dtype[np.float32]], room: asyncio.Semaphore, *, pause: float
) -> collections.abc.AsyncIterator[dict[str, typing.Any]]:
    """A request per chunk: the first one starts a sequence with an id of its own, and the last one ends it."""
    sequence = uuid.uuid4().hex
    for number, chunk in enumerate(chunks):
        await room.acquire()
        if pause:
            await asyncio.sleep(pause)
        audio = triton.InferInput("AUDIO", [1, CHUNK], "FP32")
        audio.set_data_from_numpy(chunk)
        yield {
            "model_name": MODEL,
            "inputs": [audio],
            "sequence_id": sequence,
            "sequence_start": number == 0,
            "sequence_end": number == len(chunks) - 1,
        }


if __name__ == "__main__":
    sys.exit(main())
