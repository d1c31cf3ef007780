"""Question answering as docs/kserve-v1.md shows it: a model in front of a BERT-like network, asked by KServe's v1."""

import collections.abc
import json
import pathlib
import subprocess
import sys

import ask_question
import numpy as np
import pytest
import tiny_bert
import tritonclient.http as httpclient
from passages import Passage
from wordpiece import WordPiece

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.documentation.sample_files import ROOT
from tests.wire.plain_http import call

EXAMPLE = ROOT / "examples/question_answering"
PAGE = (ROOT / "docs/kserve-v1.md").read_text()
PREDICT = "/v1/models/question_answering:predict"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("questions")
    subprocess.run(
        [sys.executable, str(EXAMPLE / "make_question_answering.py"), "models"],
        cwd=folder,
        check=True,
        timeout=60,
    )
    with ServerProcess(naiad_program(), [folder / "models"], log=folder / "log") as started:
        yield started


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece(tiny_bert.vocabulary())


def test_the_client_prints_what_the_page_shows(server: ServerProcess) -> None:
    command = [sys.executable, str(EXAMPLE / "ask_question.py"), f"--url=http://{server.http}"]
    printed = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True)
    assert printed.stdout
    for line in printed.stdout.splitlines():
        assert line in PAGE


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who built the bridge?", "Clara Weber"),
        ("WHO painted the bridge?", "Otto Lang"),
        ("When was the bridge built?", "1892"),
        ("When was the bridge painted?", "1931"),
        ("Where was the bridge built?", "Ilm"),
        ("Which colour was it painted?", "green"),
    ],
)
def test_a_question_is_answered_with_words_of_the_context(
    server: ServerProcess, question: str, answer: str
) -> None:
    ((words, probability),) = ask_question.ask(
        f"http://{server.http}", ask_question.CONTEXT, [question]
    )
    assert words == answer
    assert 0 < probability <= 1


def test_rows_columns_and_v2_have_the_same_answer(server: ServerProcess) -> None:
    context, question = ask_question.CONTEXT, "Who built the bridge?"
    rows = {"instances": [{"context": context, "question": question}]}
    ((by_row),) = json.loads(call(server.http, "POST", PREDICT, rows)[1])["predictions"]
    columns = {"inputs": {"context": [context], "question": [question]}}
    by_column = json.loads(call(server.http, "POST", PREDICT, columns)[1])["outputs"]
    assert by_column == {name: [value] for name, value in by_row.items()}
    with httpclient.InferenceServerClient(server.http) as client:
        inputs = []
        for name, text in (("context", context), ("question", question)):
            inputs.append(httpclient.InferInput(name, [1, 1], "BYTES"))
            inputs[-1].set_data_from_numpy(np.array([[text]], dtype=object))
        result = client.infer("question_answering", inputs)
    words, probability = result.as_numpy("predictions"), result.as_numpy("prob")
    assert words is not None
    assert probability is not None
    assert [words[0, 0].decode()] == by_row["predictions"]
    assert probability.tolist() == [by_row["prob"]]


def test_the_questions_of_a_request_are_one_batch_of_the_network(server: ServerProcess) -> None:
    with httpclient.InferenceServerClient(server.http) as client:

        def counts() -> tuple[int, int]:
            (stats,) = client.get_inference_statistics("bert")["model_stats"]
            return int(stats["inference_count"]), int(stats["execution_count"])

        rows, executions = counts()
        questions = ["Who built the bridge?"] * 20
        answers = ask_question.ask(f"http://{server.http}", ask_question.CONTEXT, questions)
        assert {words for words, _ in answers} == {"Clara Weber"}
        assert counts() == (rows + 20, executions + 1)


def test_a_context_that_is_too_long_is_refused_with_its_row(server: ServerProcess) -> None:
    row = {"context": ask_question.CONTEXT, "question": "Who built the bridge?"}
    rows = {"instances": [row, {**row, "context": "so long " * 40}]}
    status, text = call(server.http, "POST", PREDICT, rows)
    assert status == 400
    assert "row 1: the question has 5 tokens and the context" in json.loads(text)["error"]
    wrong = {"instances": [{**row, "context": {"b64": "/w=="}}]}
    status, text = call(server.http, "POST", PREDICT, wrong)
    assert (status, "row 0: 'utf-8' codec" in json.loads(text)["error"]) == (400, True)
    assert call(server.http, "POST", PREDICT, {"instances": [row]})[0] == 200


def test_words_become_the_longest_pieces(tokenizer: WordPiece) -> None:
    pieces = tiny_bert.vocabulary()

    def split(text: str) -> list[str]:
        return [pieces[token.id] for token in tokenizer.tokens(text)]

    assert split("The BRIDGE, painted in 1892!") == [
        "the", "bridge", ",", "paint", "##ed", "in", "18", "##92", "!",
    ]  # fmt: skip
    assert split("Wébér") == ["web", "##er"]
    assert split("zax") == ["z", "##a", "##x"]
    assert split("橋") == ["[UNK]"]
    assert split("") == []


def test_an_answer_is_cut_from_the_text_as_it_is(tokenizer: WordPiece) -> None:
    passage = Passage(tokenizer, "Built by  CLÁRA Weber.", "Who?")
    begin = int(np.argmax(passage.rows["segment_ids"]))
    starts, ends = np.full(64, -9.0), np.full(64, -9.0)
    starts[begin + 2] = ends[begin + 4] = 9
    words, probability = passage.answer(starts, ends)
    assert words == "CLÁRA Weber"
    assert probability == pytest.approx(1, abs=1e-5)
    assert Passage(tokenizer, "", "Who?").answer(starts, ends) == ("", 0)


def test_the_network_takes_what_a_bert_takes(tmp_path: pathlib.Path) -> None:
    model = tiny_bert.network()
    assert [each.name for each in model.graph.input] == ["input_ids", "input_mask", "segment_ids"]
    assert [each.name for each in model.graph.output] == ["start_logits", "end_logits"]
    assert model.ByteSize() < 1 << 17
