"""Makes the model repository of the example: `bert`, and `question_answering` in front of it.

python make_question_answering.py models
"""

import argparse
import pathlib
import shutil

import onnx
from tiny_bert import network, vocabulary

HERE = pathlib.Path(__file__).resolve().parent


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the model repository to make")
    repository = parser.parse_args().folder
    make_repository(repository)
    print(f"naiad serve --model-repository {repository}")
    return 0


def make_repository(repository: pathlib.Path) -> None:
    """Write both models there, each in a folder of its own."""
    versions = {name: repository / name / "1" for name in ("bert", "question_answering")}
    for name, version in versions.items():
        version.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / f"{name}.pbtxt", version.parent / "config.pbtxt")
    onnx.save(network(), versions["bert"] / "model.onnx")
    version = versions["question_answering"]
    for file in ("model.py", "passages.py", "wordpiece.py"):
        shutil.copyfile(HERE / file, version / file)
    (version / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary()))


if __name__ == "__main__":
    raise SystemExit(main())
