"""A transformer of question answering with nothing but numpy: what KServe's contract asks of a container, for an image that has no `kserve`.

    python plain_transformer.py --model_name bert --predictor_host bert.models:8000 --predictor_protocol v1 --http_port 8080

It runs in a container, beside `passages.py` and `wordpiece.py` of examples/question_answering; its vocab.txt is there too, or in the folder of STORAGE_URI.
"""

import argparse
import http.server
import json
import os
import pathlib
import re
import typing
import urllib.error
import urllib.request

from passages import INPUTS, Passage, stacked
from wordpiece import WordPiece

_TIMEOUT_S = 30
Row = dict[str, typing.Any]


class Predictor:
    """The servers behind the transformer.

    Args:
        host: with its port.
        protocol: v1, or v2 in JSON.
    """

    def __init__(self, host: str, protocol: str) -> None:
        self._host = host
        self._protocol = protocol

    def logits(self, model: str, rows: typing.Any) -> list[tuple[typing.Any, typing.Any]]:
        """The logits of starts and ends, by row."""
        count = len(rows[INPUTS[0]])
        if self._protocol == "v1":
            instances = [{name: rows[name][at].tolist() for name in INPUTS} for at in range(count)]
            found = self._ask(f"/v1/models/{model}:predict", {"instances": instances})
            return [(row["start_logits"], row["end_logits"]) for row in found["predictions"]]
        inputs = [
            {"name": name, "datatype": "INT32", "shape": list(rows[name].shape), "data": rows[name].ravel().tolist()}
            for name in INPUTS
        ]  # fmt: skip
        found = self._ask(f"/v2/models/{model}/infer", {"inputs": inputs})
        outputs = {one["name"]: one["data"] for one in found["outputs"]}
        size = len(outputs["start_logits"]) // count
        pieces = [slice(at * size, (at + 1) * size) for at in range(count)]
        return [(outputs["start_logits"][one], outputs["end_logits"][one]) for one in pieces]

    def _ask(self, path: str, body: Row) -> Row:
        url = f"http://{self._host}{path}"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310 - the same
            found: Row = json.load(reply)
        return found


def answered(tokenizer: typing.Any, predictor: Predictor, model: str, payload: Row) -> Row:
    """What clients of the example get."""
    passages = [Passage(tokenizer, row["context"], row["question"]) for row in payload["instances"]]
    logits = predictor.logits(model, stacked(passages))
    answers = [passage.answer(*pair) for passage, pair in zip(passages, logits, strict=True)]
    texts, probabilities = [text for text, _ in answers], [float(each) for _, each in answers]
    if len(answers) == 1:
        return {"predictions": texts[0], "prob": probabilities[0]}
    return {"predictions": texts, "prob": probabilities}


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_name", required=True)
    parser.add_argument("--predictor_host", required=True)
    parser.add_argument("--predictor_protocol", choices=("v1", "v2"), default="v2")
    parser.add_argument("--http_port", type=int, default=8080)
    given = parser.parse_args()
    files = pathlib.Path(os.environ.get("STORAGE_URI") or pathlib.Path(__file__).parent)
    tokenizer = WordPiece.read(files / "vocab.txt")
    predictor = Predictor(given.predictor_host, given.predictor_protocol)
    path = re.compile(f"/v1/models/{re.escape(given.model_name)}:predict")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not path.fullmatch(self.path):
                self._reply(404, {"error": f"there is no {self.path}"})
                return
            try:
                answer = answered(tokenizer, predictor, given.model_name, json.loads(body))
            except (KeyError, TypeError, ValueError) as error:
                self._reply(400, {"error": f"instances need a context and a question: {error!r}"})
            except urllib.error.URLError as error:
                self._reply(503, {"error": f"the predictor does not answer: {error}"})
            else:
                self._reply(200, answer)

        def _reply(self, status: int, answer: Row) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    http.server.ThreadingHTTPServer(("", given.http_port), Handler).serve_forever()


if __name__ == "__main__":
    main()
