"""Asks a question about a context, by KServe's v1 and nothing but the standard library.

python ask_question.py "Who built the bridge?"
"""

import argparse
import json
import urllib.request

CONTEXT = "The bridge over the river Ilm was built by Clara Weber in 1892. In 1931 Otto Lang painted it green."
QUESTIONS = ["Who built the bridge?", "When was the bridge built?", "Who painted the bridge?"]


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*", default=QUESTIONS, metavar="question")
    parser.add_argument("--context", default=CONTEXT)
    parser.add_argument("--url", default="http://localhost:8000")
    arguments = parser.parse_args()
    for question, (answer, probability) in zip(
        arguments.questions,
        ask(arguments.url, arguments.context, arguments.questions),
        strict=True,
    ):
        print(f"{question} {answer} ({probability:.0%})")
    return 0


def ask(url: str, context: str, questions: list[str]) -> list[tuple[str, float]]:
    """The answers, each with its probability, by one request."""
    rows = [{"context": context, "question": question} for question in questions]
    request = urllib.request.Request(  # noqa: S310 - the address of a server of yours
        f"{url}/v1/models/question_answering:predict",
        json.dumps({"instances": rows}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - the same
        predictions = json.load(reply)["predictions"]
    return [(row["predictions"][0], row["prob"][0]) for row in predictions]


if __name__ == "__main__":
    raise SystemExit(main())
