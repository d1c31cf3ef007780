"""Engines of language models that die, and models that cannot have one: words for people, and no harm to anything else."""

import json
import pathlib

import pytest
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.models.language_models import TokenStream, add_model, generate, program
from tests.wire.models.test_workers import is_ready, restarts
from tests.wire.models.worker_models import worker_of
from tests.wire.plain_http import call

DEATH = "the engine of model 'words' died: EngineDeadError: EngineCore encountered an issue"
CAUSE = "because of RuntimeError: CUDA error: the made-up device is gone"


def serving(models: pathlib.Path, folder: pathlib.Path) -> ServerProcess:
    options = ("--exit-on-error=false", "--strict-readiness=false")
    return ServerProcess(program(), [models], log=folder / "log", options=options)


def reason(server: ServerProcess, model: str) -> str:
    index = json.loads(call(server.http, "POST", "/v2/repository/index", {})[1])
    return next(str(each["reason"]) for each in index if each["name"] == model)


@pytest.mark.slow
def test_all_requests_of_an_engine_that_dies_get_its_reason_and_another_takes_its_place(
    tmp_path: pathlib.Path,
) -> None:
    models = tmp_path / "models"
    for name in ("words", "other"):
        add_model(models, name)
    with serving(models, tmp_path) as server:
        first, other = worker_of(server, "words"), worker_of(server, "other")
        with TokenStream(server) as talk, TokenStream(server) as beside:
            beside.ask("other", "forever", stream=True)
            for _ in range(5):
                talk.ask("words", "forever", stream=True)
                talk.next()
            talk.ask("words", "die", stream=True)
            errors: list[str] = []
            while len(errors) < 6:
                try:
                    talk.next()
                except InferenceServerException as error:
                    errors.append(error.message())
            assert all(DEATH in each and CAUSE in each for each in errors), errors
            assert beside.next()[1]["text_output"]
        wait_until(lambda: worker_of(server, "words") not in {0, first})
        wait_until(lambda: is_ready(server, "words"))
        assert generate(server, "words", text_input="hi", max_tokens=1)[0] == 200
        assert restarts(server, "words", "died") == 1
        assert worker_of(server, "other") == other
        assert "the worker ends, because its engine died" in server.output()


@pytest.mark.slow
def test_an_engine_that_dies_without_a_request_is_found_by_the_probe_for_readiness(
    tmp_path: pathlib.Path,
) -> None:
    models = tmp_path / "models"
    add_model(models, "words")
    with serving(models, tmp_path) as server:
        first = worker_of(server, "words")
        assert generate(server, "words", text_input="dying", max_tokens=2)[0] == 200
        assert not is_ready(server, "words")
        wait_until(lambda: worker_of(server, "words") not in {0, first})
        wait_until(lambda: is_ready(server, "words"))
        assert DEATH in server.output()


@pytest.mark.slow
def test_the_health_of_an_engine_is_asked_before_each_request_where_the_config_says_so(
    tmp_path: pathlib.Path,
) -> None:
    models = tmp_path / "models"
    health = 'parameters { key: "ENABLE_VLLM_HEALTH_CHECK" value { string_value: "true" } }'
    add_model(models, "words", config=health)
    add_model(models, "careless")
    with serving(models, tmp_path) as server:
        for name in ("words", "careless"):
            assert generate(server, name, text_input="sick", max_tokens=1)[0] == 200
        assert generate(server, "careless", text_input="hi", max_tokens=1)[0] == 200
        first = worker_of(server, "words")
        status, reply = generate(server, "words", text_input="hi")
        assert status == 503
        assert "engine of model 'words' died: RuntimeError: no heartbeat" in reply["error"]
        wait_until(lambda: worker_of(server, "words") not in {0, first})
        wait_until(lambda: is_ready(server, "words"))
        assert generate(server, "words", text_input="hi", max_tokens=1)[0] == 200


@pytest.mark.slow
def test_an_unload_waits_for_requests_and_a_stop_for_no_longer_than_it_may(
    tmp_path: pathlib.Path,
) -> None:
    models = tmp_path / "models"
    for name in ("words", "endless"):
        add_model(models, name)
    options = ("--model-control-mode=explicit", "--load-model=*", "--exit-timeout-secs=1")
    server = ServerProcess(program(), [models], log=tmp_path / "log", options=options)
    with server, TokenStream(server) as stream:
        stream.ask("endless", "forever", stream=True)
        stream.next()
        stream.ask("words", "one two", stream=True, parameters={"max_tokens": 500})
        unloaded = call(server.http, "POST", "/v2/repository/models/words/unload", {})
        assert unloaded[0] == 200
        wait_until(lambda: "[words words_0_0] made-up engine: shut down" in server.output())
        assert "aborted" not in server.output()
        assert server.stop(timeout_s=60) == 1  # a request outlasted the limit


@pytest.mark.slow
def test_an_engine_that_dies_in_a_thread_of_the_server_leaves_the_server_alone(
    tmp_path: pathlib.Path,
) -> None:
    models = tmp_path / "models"
    host = 'parameters { key: "naiad.host" value { string_value: "thread" } }'
    add_model(models, "words", config=host)
    add_model(models, "other")
    with serving(models, tmp_path) as server:
        status, reply = generate(server, "words", text_input="die")
        assert (status, DEATH in reply["error"]) == (503, True)
        assert not is_ready(server, "words")
        assert generate(server, "words", text_input="hi")[0] == 503
        assert generate(server, "other", text_input="hi", max_tokens=1)[0] == 200


FAULTS = {
    "no_json": ('{"model": "made/up",\n "enforce_eager": yes}', "model.json:2:19: it is not JSON: Expecting value"),
    "a_list": ("[]", "model.json: it holds a list, not an object: write there the engine's arguments"),
    "no_model": ('{"dtype": "auto"}', "model.json: 'model' is missing: it must be the name of a model on Hugging Face"),
    "twice": ('{"model": "a", "model": "b"}', "model.json: it names 'model' twice"),
    "unknown": ('{"model": "a", "gpu_memory_utilisation": 1}', "the installed vllm has no engine argument 'gpu_memory_utilisation' (did you mean 'gpu_memory_utilization'?)"),
    "several": ('{"model": "a", "tensor_parallel_size": "two"}', "'tensor_parallel_size' is \"two\": it must be a number of GPUs"),
    "no_adapters": ('{"model": "a", "enable_lora": true}', 'multi_lora.json: there is no such file: "enable_lora" in model.json needs it'),
    "absent": ('{"model": "missing/model"}', "OSError: missing/model is not a local folder and is not a valid model identifier"),
    "batched": ('{"model": "a"}', "max_batch_size is 8, and the engine of vllm forms its batches itself"),
}  # fmt: skip


def test_a_model_that_is_wrong_says_so_and_naiad_check_says_the_same(
    tmp_path: pathlib.Path,
) -> None:
    models = tmp_path / "models"
    for name, (text, _) in FAULTS.items():
        add_model(models, name, text, config="max_batch_size: 8" if name == "batched" else "")
    with serving(models, tmp_path) as server:
        reasons = {name: reason(server, name) for name in FAULTS}
    for name, (_, expected) in FAULTS.items():
        assert expected in reasons[name], reasons[name]
    ours = program()
    check = type(ours)("check", (*ours.command[:-1], "check"), ours.environ)
    _, output = check.run([str(models)], timeout_s=60)
    for name, (_, expected) in FAULTS.items():
        assert (expected in output) is (name != "absent"), (
            output
        )  # that one is for the engine to say


def test_without_vllm_the_error_names_the_command_that_installs_it(tmp_path: pathlib.Path) -> None:
    models = tmp_path / "models"
    add_model(models, "words")
    ours = naiad_program()
    options = ("--exit-on-error=false", "--strict-readiness=false")
    with ServerProcess(ours, [models], log=tmp_path / "log", options=options) as server:
        said = reason(server, "words")
    assert "its package vllm is not installed: pip install vllm" in said
    status, output = type(ours)("check", (*ours.command[:-1], "check"), ours.environ).run(
        [str(models)]
    )
    assert status == 1
    assert said in output


def test_a_folder_of_that_name_in_the_backend_directory_goes_first(tmp_path: pathlib.Path) -> None:
    models = tmp_path / "models"
    add_model(models, "words", config='output { name: "Y" data_type: TYPE_INT32 dims: 1 }')
    folder = tmp_path / "backends" / "vllm"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(
        "class TritonPythonModel:\n"
        "    def initialize(self, args): print('the other vllm', flush=True)\n"
        "    def execute(self, requests): pass\n"
    )
    options = [f"--backend-directory={folder.parent}", "--exit-on-error=false"]
    with ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options) as server:
        assert "the other vllm" in server.output(), server.output()


def test_an_engine_of_tensorrt_llm_is_refused_with_the_ways_that_work(
    tmp_path: pathlib.Path,
) -> None:
    version = tmp_path / "llama" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text('backend: "tensorrtllm"')
    ours = naiad_program()
    check = type(ours)("check", (*ours.command[:-1], "check"), ours.environ)
    status, output = check.run([str(tmp_path)])
    assert status == 1
    assert "unable to find backend library for backend 'tensorrtllm'" in output
    assert 'serve the language model with backend: "vllm"' in output
