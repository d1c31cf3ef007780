"""Prints what the example model `typewriter` answers, word by word while they come.

Start a server with `make run` first. `--grpc` asks over a gRPC stream with Triton's own client (`pip install 'tritonclient[grpc]'`); without it
nothing but the standard library is needed, and `curl -N` does as well.
"""

import argparse
import json
import queue
import sys
import urllib.request

TEXT = "every word of this sentence comes as an answer of its own"


def main() -> int:
    """Run it; the exit status is 0 when all words came back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="host:port; localhost:8000, or localhost:8001 for gRPC")
    parser.add_argument("--grpc", action="store_true", help="use a gRPC stream")
    parser.add_argument("--pause-ms", type=float, default=100.0, help="between two words")
    parser.add_argument("text", nargs="?", default=TEXT)
    asked = parser.parse_args()
    ask = over_grpc if asked.grpc else over_http
    address = asked.address or ("localhost:8001" if asked.grpc else "localhost:8000")
    words = ask(address, asked.text, asked.pause_ms)
    return 0 if words == asked.text.split() else 1


def over_http(address: str, text: str, pause_ms: float) -> list[str]:
    """Server-sent events: lines that begin with `data: `, and the end of the reply is the end."""
    words: list[str] = []
    body = json.dumps({"TEXT": text, "pause_ms": pause_ms}).encode()
    url = f"http://{address}/v2/models/typewriter/generate_stream"
    with urllib.request.urlopen(url, data=body, timeout=60) as reply:
        for line in reply:
            if line.startswith(b"data: "):
                show(words, json.loads(line[6:])["WORD"])
    print()
    return words


def over_grpc(address: str, text: str, pause_ms: float) -> list[str]:
    """The empty final response says that no more words come."""
    import numpy as np  # noqa: PLC0415 - only for those who want gRPC
    import tritonclient.grpc as triton  # noqa: PLC0415 - as above

    words: list[str] = []
    answers: queue.SimpleQueue[tuple[triton.InferResult, Exception | None]] = queue.SimpleQueue()
    given = triton.InferInput("TEXT", [1], "BYTES")
    given.set_data_from_numpy(np.array([text.encode()], dtype=object))
    with triton.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(
            "typewriter",
            [given],
            enable_empty_final_response=True,
            parameters={"pause_ms": int(pause_ms)},
        )
        while True:
            result, error = answers.get(timeout=60)
            if error is not None:
                raise error
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
            show(words, result.as_numpy("WORD")[0].decode())
    print()
    return words


def show(words: list[str], word: str) -> None:
    """Print a word now."""
    words.append(word)
    print(word, end=" ", flush=True)


if __name__ == "__main__":
    sys.exit(main())
