"""The same as a transformer of KServe's: a container in front of a server that has `bert` alone.

    pip install kserve
    python transformer.py --model_name bert --predictor_host localhost:8000 --predictor_protocol v1 --http_port 8080

`--predictor_protocol` may be v1, v2, or grpc-v2 with the port of gRPC (8001). KServe gives `--model_name` and `--predictor_host` itself.
"""

import argparse
import pathlib

import kserve
from kserve import InferInput, InferRequest
from passages import INPUTS, LENGTH, Passage, stacked
from wordpiece import WordPiece


class QuestionAnswering(kserve.Model):
    """Tokens before the predictor, the words of the answer behind it."""

    def __init__(self, name, vocabulary):
        super().__init__(name)
        self.tokenizer = WordPiece.read(vocabulary)
        self.ready = True

    async def predict(self, payload, headers=None, response_headers=None):
        """`{"instances": [{"context": …, "question": …}]}` in, `{"predictions": …, "prob": …}` out; lists of them for several instances."""
        try:
            passages = [
                Passage(self.tokenizer, row["context"], row["question"])
                for row in payload["instances"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise kserve.errors.InvalidInput(
                f"instances need a context and a question: {error}"
            ) from None
        rows = stacked(passages)
        if self.predictor_config.protocol == "v1":
            instances = [
                {name: rows[name][at].tolist() for name in INPUTS} for at in range(len(passages))
            ]
            result = await super().predict({"instances": instances}, headers)
            logits = [(row["start_logits"], row["end_logits"]) for row in result["predictions"]]
        else:
            inputs = [InferInput(name, [len(passages), LENGTH], "INT32") for name in INPUTS]
            for tensor in inputs:
                tensor.set_data_from_numpy(rows[tensor.name], binary_data=True)
            result = await super().predict(InferRequest(self.name, inputs), headers)
            found = {output.name: output.as_numpy() for output in result.outputs}
            logits = zip(found["start_logits"], found["end_logits"], strict=True)
        answers = [passage.answer(*pair) for passage, pair in zip(passages, logits, strict=True)]
        texts, probabilities = [text for text, _ in answers], [each for _, each in answers]
        if len(answers) == 1:
            return {"predictions": texts[0], "prob": probabilities[0]}
        return {"predictions": texts, "prob": probabilities}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[kserve.model_server.parser])
    parser.add_argument("--vocabulary", type=pathlib.Path, default="vocab.txt")
    arguments, _ = parser.parse_known_args()
    kserve.ModelServer().start([QuestionAnswering(arguments.model_name, arguments.vocabulary)])
