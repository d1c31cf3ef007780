"""A server with DALI pipelines in worker processes, through tritonclient: the example of ensembles with DALI and with Pillow, and files that are refused."""

import collections.abc
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import get_network
import numpy as np
import onnxruntime
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from tests.frameworks.dali import pages, pipelines
from tests.reference.process import ServerProcess, naiad_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "image_ensembles" / "model_repository"
LABELS = (EXAMPLE / "orientation" / "labels.txt").read_text().split()
BOTH = pytest.mark.parametrize(
    "module", [tritonclient.http, tritonclient.grpc], ids=["HTTP", "gRPC"]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("dali")
    models = folder / "models"
    shutil.copytree(EXAMPLE, models)
    command = [sys.executable, str(EXAMPLE.parent / "get_network.py"), str(models)]
    subprocess.run(command, check=True, timeout=60)
    pipelines.write(models / "spectrogram", pipelines.CODE)
    pipelines.write(models / "resized", pipelines.resized(), "instance_group { count: 2 }")
    pipelines.write(models / "truncated", pipelines.resized()[:200])
    pipelines.write(models / "raising", "raise ValueError('no luck')  # autoserialize")
    pipelines.write(models / "for_gpus", pipelines.resized(device="mixed"))
    pipelines.write(
        models / "other_output",
        pipelines.CODE,
        'output { name: "S" data_type: TYPE_UINT8 dims: [ 257, -1 ] }',
    )
    with ServerProcess(
        naiad_program(), [models], log=folder / "log", options=["--exit-on-error=false"]
    ) as running:
        yield running


def infer(server: ServerProcess, module: Any, model: str, name: str, *files: Any) -> dict[str, Any]:
    address = server.http if module is tritonclient.http else server.grpc
    with module.InferenceServerClient(address) as client:
        array = np.stack(files)
        tensor = module.InferInput(name, list(array.shape), "UINT8")
        tensor.set_data_from_numpy(array)
        result = client.infer(model, [tensor])
        response = result.get_response()
        names = (
            [each["name"] for each in response["outputs"]]
            if module is tritonclient.http
            else [each.name for each in response.outputs]
        )
        return {each: result.as_numpy(each) for each in names}


TURNS = ((0, "0"), (90, "270"), (180, "180"), (270, "90"))
"""How far a page was turned, against the clock, and the network's name of it."""


@BOTH
def test_the_ensemble_with_dali_answers_as_the_one_with_pillow(
    server: ServerProcess, module: Any
) -> None:
    for turned, label in TURNS:
        file = pages.page(turned, turned)
        by_dali, by_pillow = (
            infer(server, module, f"orientation_by_{each}", "JPEG", file)["PROBABILITIES"]
            for each in ("dali", "pillow")
        )
        assert LABELS[by_dali.argmax()] == LABELS[by_pillow.argmax()] == label
        np.testing.assert_allclose(by_dali, by_pillow, atol=0.01)
        assert by_dali.max() > 0.8


def test_the_network_is_asked_as_without_a_server(server: ServerProcess) -> None:
    session = onnxruntime.InferenceSession(get_network.network())
    file = pages.page(5, 90)
    for module in (tritonclient.http, tritonclient.grpc):
        for each in ("dali", "pillow"):
            image = infer(server, module, f"prepare_by_{each}", "JPEG", file)["IMAGE"]
            assert (image.dtype, image.shape) == (np.float32, (1, 3, 224, 224))
            (expected,) = session.run(None, {"x": image})
            found = infer(server, module, f"orientation_by_{each}", "JPEG", file)
            np.testing.assert_allclose(found["PROBABILITIES"], expected, atol=1e-4)


@pytest.mark.parametrize("each", ["dali", "pillow"])
def test_a_file_in_a_class_out(server: ServerProcess, tmp_path: pathlib.Path, each: str) -> None:
    files = []
    for turned, _ in TURNS:
        files.append(tmp_path / f"turned_{turned}.jpg")
        files[-1].write_bytes(pages.page(10 + turned, turned).tobytes())
    command = [
        sys.executable, str(EXAMPLE.parent / "classify.py"), "--address", server.http, "--model", f"orientation_by_{each}", *map(str, files),
    ]  # fmt: skip
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    said = [line.rsplit("/", 1)[1].split(" (")[0] for line in shown.stdout.splitlines()]
    assert said == [f"turned_{turned}.jpg: {label}" for turned, label in TURNS]


def test_clients_at_once_get_their_own_images(server: ServerProcess) -> None:
    files = [pipelines.jpeg(60 + 10 * seed, 80, seed) for seed in range(12)]

    def ask(file: Any) -> Any:
        return infer(server, tritonclient.grpc, "resized", "JPEG", file)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for file, found in zip(files, pool.map(ask, files), strict=True):
            (image,) = found.values()
            away = np.abs(image[0].astype(int) - pipelines.by_pillow(file, 64))
            assert away.max() <= 2


@BOTH
def test_a_wav_file_becomes_a_spectrogram(server: ServerProcess, module: Any) -> None:
    file = pipelines.wav(4000)
    spectrogram, rate = infer(server, module, "spectrogram", "WAV", file).values()
    expected = pipelines.by_numpy(file)
    assert np.abs(spectrogram[0] - expected).max() <= 1e-3 * expected.max()
    assert rate.tolist() == [[16000.0]]


@BOTH
def test_a_file_that_cannot_be_decoded_is_one_failed_request(
    server: ServerProcess, module: Any
) -> None:
    with pytest.raises(InferenceServerException, match=r"decoders\.image: nvImageCodec failure"):
        infer(server, module, "resized", "JPEG", np.arange(90, dtype=np.uint8))
    with pytest.raises(InferenceServerException, match="nvImageCodec failure"):
        infer(server, module, "orientation_by_dali", "JPEG", np.arange(90, dtype=np.uint8))
    assert infer(server, module, "resized", "JPEG", pipelines.jpeg(100, 90))


def test_a_completed_config_comes_from_the_code(server: ServerProcess) -> None:
    with tritonclient.http.InferenceServerClient(server.http) as client:
        config = client.get_model_config("spectrogram")
    assert config["max_batch_size"] == 16
    (given,) = config["input"]
    assert (given["name"], given["data_type"], given["dims"]) == ("WAV", "TYPE_UINT8", [-1])
    assert given["allow_ragged_batch"]
    assert [each["dims"] for each in config["output"]] == [[-1, -1], [1]]


def test_files_that_are_not_served_say_why_and_others_are(server: ServerProcess) -> None:
    with tritonclient.http.InferenceServerClient(server.http) as client:
        index = {each["name"]: each for each in client.get_model_repository_index()}
    reasons = {name: each.get("reason", "") for name, each in index.items()}
    served = {name for name, each in index.items() if each["state"] == "READY"}
    assert served == {
        *(each.name for each in EXAMPLE.iterdir()),
        "spectrogram",
        "resized",
    }
    assert "is cut off after 200 bytes" in reasons["truncated"]
    assert "ValueError: no luck" in reasons["raising"]
    assert "(device 'mixed') needs a GPU" in reasons["for_gpus"]
    assert 'Mismatch of data_type config for "S"' in reasons["other_output"]


def test_only_worker_processes_have_dali(server: ServerProcess) -> None:
    assert server.process is not None
    itself = psutil.Process(server.process.pid)
    assert not [each.path for each in itself.memory_maps() if "libdali" in each.path]
    with_dali = [
        child
        for child in itself.children(recursive=True)
        if any("libdali" in each.path for each in child.memory_maps())
    ]
    assert len(with_dali) == 4, "one for each instance: images, spectrogram, and two of resized"
