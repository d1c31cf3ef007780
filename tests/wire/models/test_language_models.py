"""Language models (`backend: "vllm"`): text in, words out, over generate, generate_stream and gRPC streams, with Triton's client."""

import base64
import io
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from PIL import Image
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.models.language_models import TokenStream, add_model, generate, metric, program
from tests.wire.models.worker_models import worker_of
from tests.wire.plain_http import get
from tests.wire.protocol.stream_clients import event, events, posted

REPORTS = 'parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "true" } }'
HEALTH = 'parameters { key: "ENABLE_VLLM_HEALTH_CHECK" value { string_value: "true" } }'
ABORTED = "[left left_0_0] made-up engine: aborted a request"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("language_models")
    models = folder / "models"
    add_model(models, "words", config=HEALTH)
    add_model(models, "few", {"model": "made/up", "max_num_seqs": 2, "enforce_eager": "false"})
    add_model(models, "counted", config=REPORTS)
    add_model(models, "left")
    adapters = {"alpaca": "./alpaca", "bactrian": "/weights/bactrian"}
    lora = {"model": "./weights", "enable_lora": "true", "max_lora_rank": 16}
    add_model(models, "adapted", lora, multi_lora=adapters)
    with ServerProcess(program(), [models], log=folder / "log") as running:
        yield running


def test_the_config_is_that_of_tritons_backend(server: ServerProcess) -> None:
    config = json.loads(get(server.http, "/v2/models/words/config")[1])
    assert config["backend"] == "vllm"
    assert config["model_transaction_policy"] == {"decoupled": True}
    assert config["max_batch_size"] == 0
    given = {each["name"]: (each["data_type"], each["dims"]) for each in config["input"]}
    assert given["text_input"] == ("TYPE_STRING", [1])
    assert given["stream"] == ("TYPE_BOOL", [1])
    assert [each["name"] for each in config["input"] if not each.get("optional")] == ["text_input"]
    assert {each["name"]: each["data_type"] for each in config["output"]} == {
        "text_output": "TYPE_STRING",
        "finish_reason": "TYPE_STRING",
        "cumulative_logprob": "TYPE_FP32",
        "logprobs": "TYPE_STRING",
        "num_input_tokens": "TYPE_UINT32",
        "num_output_tokens": "TYPE_UINT32",
    }


class TestGenerate:
    def test_without_a_stream_there_is_one_response_that_begins_with_the_prompt(
        self, server: ServerProcess
    ) -> None:
        asked = {"text_input": "how are you", "parameters": {"stream": False, "temperature": 0}}
        status, reply = generate(server, "words", **asked)
        assert status == 200, reply
        assert reply["text_output"] == "how are you" + " ".join(["HOW ARE YOU"] * 5) + " HOW"
        assert set(reply) == {"model_name", "model_version", "text_output"}

    def test_parameters_may_be_text_or_a_tensor_of_their_own(self, server: ServerProcess) -> None:
        alone = {"text_input": "a b", "exclude_input_in_output": True}
        assert generate(server, "words", max_tokens="3", **alone)[1]["text_output"] == "A B A"
        tensor = json.dumps({"max_tokens": 2, "logit_bias": {"7": 1.5}})
        reply = generate(server, "words", sampling_parameters=tensor, max_tokens=9, **alone)[1]
        assert reply["text_output"] == "A B"

    def test_further_outputs_are_given_where_they_are_asked_for(
        self, server: ServerProcess
    ) -> None:
        names = (
            "finish_reason",
            "cumulative_logprob",
            "logprobs",
            "num_input_tokens",
            "num_output_tokens",
        )
        wanted = {f"return_{name}": True for name in names}
        _, reply = generate(server, "words", text_input="a b c", max_tokens=2, logprobs=1, **wanted)
        assert reply["finish_reason"] == "length"
        assert reply["cumulative_logprob"] == -1.0
        assert (reply["num_input_tokens"], reply["num_output_tokens"]) == (3, 2)
        assert json.loads(reply["logprobs"]) == [
            {"7": {"logprob": -0.5, "rank": 1, "decoded_token": word}} for word in ("A", " B")
        ]
        _, reply = generate(server, "words", text_input="a", max_tokens=1, return_logprobs=True)
        assert reply["logprobs"] == "null"

    def test_several_texts_of_one_prompt(self, server: ServerProcess) -> None:
        asked = {"text_input": "a b", "n": 3, "max_tokens": 2, "exclude_input_in_output": True}
        _, reply = generate(server, "words", return_num_output_tokens=True, **asked)
        assert reply["text_output"] == ["A B"] * 3
        assert reply["num_output_tokens"] == [2, 2, 2]

    def test_images_go_with_the_prompt(self, server: ServerProcess) -> None:
        data = io.BytesIO()
        Image.new("RGBA", (3, 2)).save(data, "PNG")
        text = base64.b64encode(data.getvalue()).decode()
        asked = {"text_input": "see", "max_tokens": 2, "exclude_input_in_output": True}
        _, reply = generate(server, "words", image=[text], **asked)
        assert reply["text_output"] == "SEE 3X2"
        status, reply = generate(server, "words", image=[text[:40]], **asked)
        assert status == 400
        assert "element 0 of the input 'image' is not an image in base64" in reply["error"]

    def test_an_adapter_is_named_by_a_parameter(self, server: ServerProcess) -> None:
        asked = {"text_input": "hi", "max_tokens": 4, "exclude_input_in_output": True}
        _, reply = generate(server, "adapted", lora_name="bactrian", **asked)
        assert reply["text_output"] == "BACTRIAN 2 /WEIGHTS/BACTRIAN HI"
        _, reply = generate(server, "adapted", lora_name="alpaca", **asked)
        assert "ADAPTED/1/ALPACA HI" in reply["text_output"]
        assert "adapted/1/weights'" in server.output()
        status, reply = generate(server, "adapted", lora_name="llama", **asked)
        assert (status, reply["error"].rpartition("lora_name")[2]) == (
            400, ' is "llama", and the model has the adapters alpaca, bactrian',
        )  # fmt: skip
        status, reply = generate(server, "words", lora_name="alpaca", **asked)
        assert status == 400
        assert "the model has no LoRA adapters" in reply["error"]


class TestStreams:
    def test_each_word_is_an_event(self, server: ServerProcess) -> None:
        body = {"text_input": "one two three", "stream": True, "max_tokens": 4}
        with posted(server, "words/generate_stream", body) as reply:
            texts = [each["text_output"] for each in events(reply)]
        assert texts == ["ONE", " TWO", " THREE", " ONE"]

    def test_each_word_is_a_response_of_a_grpc_stream(self, server: ServerProcess) -> None:
        with TokenStream(server) as talk:
            for number in ("1", "2"):
                talk.ask(
                    "words", "a b", request_id=number, stream=True, return_num_output_tokens=True,
                    return_finish_reason=True, parameters={"max_tokens": 2},
                )  # fmt: skip
                assert talk.next() == (
                    number,
                    {"text_output": [b"A"], "finish_reason": [b"None"], "num_output_tokens": [1]},
                    False,
                )
                assert talk.next() == (
                    number,
                    {
                        "text_output": [b" B"],
                        "finish_reason": [b"length"],
                        "num_output_tokens": [1],
                    },
                    True,
                )

    def test_several_texts_come_side_by_side(self, server: ServerProcess) -> None:
        with TokenStream(server) as talk:
            talk.ask("words", "a b", stream=True, sampling_parameters='{"n": 2, "max_tokens": 2}')
            pieces = [each["text_output"] for each in talk.rest()]
        assert all(len(each) == 2 for each in pieces)
        assert [b"".join(each) for each in zip(*pieces, strict=True)] == [b"A B", b"A B"]

    def test_a_stream_does_not_begin_with_its_prompt(self, server: ServerProcess) -> None:
        body = {"text_input": "a", "stream": True, "exclude_input_in_output": False}
        status, reply = generate(server, "words", **body)
        assert status == 400
        assert "leave the first one out" in reply["error"]


def test_the_client_of_the_documentation_prints_the_text(server: ServerProcess) -> None:
    page = pathlib.Path(__file__).parents[3] / "docs" / "language-models.md"
    _, code = page.read_text().split("```python\n")
    code = code.partition("```")[0].replace("localhost:8001", server.grpc).replace("llama", "words")
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert printed.stdout == " ".join(["WHAT IS A NAIAD?"] * 16)


class TestOneEngineForAll:
    def test_requests_are_batched_by_the_engine_without_a_thread_each(
        self, server: ServerProcess
    ) -> None:
        """None of these gets a word before all of them are in the engine."""
        generate(server, "words", text_input="one before")
        status = pathlib.Path(f"/proc/{worker_of(server, 'words')}/status")

        def threads() -> str:
            return next(line for line in status.read_text().splitlines() if "Threads:" in line)

        before = threads()
        with TokenStream(server) as talk:
            for number in range(40):
                talk.ask("words", "together 40", request_id=str(number), stream=True)
            first = {talk.next()[0] for _ in range(40)}
            assert first == {str(number) for number in range(40)}
            assert threads() == before

    def test_a_request_waits_where_the_engine_takes_no_more(self, server: ServerProcess) -> None:
        with TokenStream(server) as talk:
            for name in ("first", "second"):
                talk.ask("few", "forever", request_id=name, stream=True)
            assert {talk.next()[0], talk.next()[0], talk.next()[0]} <= {"first", "second"}
            with TokenStream(server) as later:
                later.ask("few", "third", request_id="third", stream=True)
                assert {talk.next()[0] for _ in range(20)} <= {"first", "second"}
                talk.cancel()
                assert later.next()[1]["text_output"] == [b"THIRD"]


class TestClientsThatLeave:
    def test_a_client_that_closes_its_connection(self, server: ServerProcess) -> None:
        before = server.output().count(ABORTED)
        with posted(
            server, "left/generate_stream", {"text_input": "forever", "stream": True}
        ) as reply:
            assert event(reply)["text_output"] == "FOREVER"
        wait_until(lambda: server.output().count(ABORTED) == before + 1)

    def test_a_stream_that_is_cancelled(self, server: ServerProcess) -> None:
        before = server.output().count(ABORTED)
        with TokenStream(server) as talk:
            for number in range(3):
                talk.ask("left", "forever", request_id=str(number), stream=True)
            begun: set[str] = set()
            while len(begun) < 3:
                begun.add(talk.next()[0])
            talk.cancel()
        wait_until(lambda: server.output().count(ABORTED) == before + 3)
        assert generate(server, "left", text_input="hi", max_tokens=1)[0] == 200

    def test_a_request_for_which_the_engine_makes_nothing(self, server: ServerProcess) -> None:
        before = server.output().count(ABORTED)
        with TokenStream(server) as talk:
            talk.ask("left", "silent")
            talk.ask("left", "hi", stream=True, parameters={"max_tokens": 1})
            talk.next()
        wait_until(lambda: server.output().count(ABORTED) == before + 1)


class TestMetrics:
    def test_times_of_tokens_as_tritons_backend_names_them(self, server: ServerProcess) -> None:
        labels = 'model="counted",version="1"'
        generate(server, "counted", text_input="a b c", max_tokens=5)
        generate(server, "counted", text_input="a", max_tokens=1)
        done = f"vllm:e2e_request_latency_seconds_count{{{labels}}}"
        wait_until(lambda: metric(server, f"vllm:request_params_n_count{{{labels}}}") == 2)
        assert metric(server, done) == 2
        assert metric(server, f"vllm:time_to_first_token_seconds_count{{{labels}}}") == 2
        assert metric(server, f"vllm:time_per_output_token_seconds_count{{{labels}}}") == 4
        assert metric(server, f"vllm:prompt_tokens_total{{{labels}}}") == 4
        assert metric(server, f"vllm:generation_tokens_total{{{labels}}}") == 6
        assert metric(server, f'vllm:request_prompt_tokens_bucket{{{labels},le="1"}}') == 1
        assert metric(server, f"vllm:request_generation_tokens_sum{{{labels}}}") == 6
        page = get(server.metrics, "/metrics")[1].decode()
        assert 'vllm:prompt_tokens_total{model="words"' not in page

    def test_times_of_responses_as_of_any_decoupled_model(self, server: ServerProcess) -> None:
        labels = 'model="adapted",version="1"'
        first = f"naiad_first_response_duration_seconds_count{{{labels}}}"
        between = f"naiad_response_interval_seconds_count{{{labels}}}"
        before = metric(server, first), metric(server, between)
        with TokenStream(server) as stream:
            stream.ask("adapted", "a b c", stream=True, parameters={"max_tokens": 5})
            assert len(stream.rest()) == 5
        assert (metric(server, first), metric(server, between)) == (before[0] + 1, before[1] + 4)


class TestWrongRequests:
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"temprature": 1}, "there is no sampling parameter 'temprature': did you mean 'temperature'?"),
            ({"output_kind": 1}, "there is no sampling parameter 'output_kind'"),
            ({"temperature": "warm"}, "wrong sampling parameters: Expected `float`, got `str` - at `$.temperature`"),
            ({"temperature": -1}, "wrong sampling parameters: temperature must be non-negative, got -1.0."),
            ({"max_tokens": 1.5}, "wrong sampling parameters: Expected `int | null`, got `float` - at `$.max_tokens`"),
            ({"sampling_parameters": "{"}, "'sampling_parameters' is not JSON: Expecting property name"),
            ({"sampling_parameters": "[]"}, "'sampling_parameters' must be a JSON object"),
            ({"text_input": "too long"}, "longer than the maximum model length of 4096"),
        ],
    )  # fmt: skip
    def test_the_error_says_what_is_wrong(
        self, server: ServerProcess, body: dict[str, object], message: str
    ) -> None:
        status, reply = generate(server, "words", **{"text_input": "hi", **body})
        assert status == 400, reply
        assert message in reply["error"]

    def test_an_error_of_the_engine_is_one_requests(self, server: ServerProcess) -> None:
        with TokenStream(server) as talk:
            talk.ask("words", "forever", request_id="other", stream=True)
            talk.next()
            status, reply = generate(server, "words", text_input="fail")
            assert status == 500
            assert "EngineGenerateError, because of RuntimeError: out of blocks" in reply["error"]
            assert talk.next()[0] == "other"

    def test_over_a_grpc_stream(self, server: ServerProcess) -> None:
        with TokenStream(server) as talk:
            talk.ask("words", "hi", stream=True, parameters={"top_q": 1})
            with pytest.raises(InferenceServerException, match="did you mean 'top_p'"):
                talk.next()
            talk.ask("words", "hi", stream=True, parameters={"max_tokens": 1})
            assert talk.rest() == [{"text_output": [b"HI"]}]
