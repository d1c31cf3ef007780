"""Whole networks, through a server and both protocols, against torch."""

import pathlib
from typing import Any

import numpy as np
import pytest
import torch
import tritonclient.grpc
import tritonclient.http

from tests.frameworks.caffe2.networks import AlexNet, ResNet, SqueezeNet, images, randomised
from tests.reference.process import ServerProcess, naiad_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NETWORKS: dict[str, tuple[type[Any], int]] = {
    "squeezenet": (SqueezeNet, 227),
    "alexnet": (AlexNet, 227),
    "resnet": (ResNet, 224),
}


def test_networks_give_what_torch_gives(tmp_path: pathlib.Path) -> None:
    expected: dict[str, Any] = {}
    for name, (make, size) in NETWORKS.items():
        torch.manual_seed(3)
        module = randomised(make())
        folder = tmp_path / "models" / name
        module.net().write(folder / "1")
        (folder / "config.pbtxt").write_text(
            f'platform: "caffe2_netdef" max_batch_size: 4 input {{ name: "data" data_type: TYPE_FP32 dims: [ 3, {size}, {size} ] }} dynamic_batching {{ }} '
            "instance_group { count: 2 kind: KIND_CPU }"
        )
        with torch.inference_mode():
            expected[name] = module(torch.from_numpy(images(3, size))).numpy()
    with ServerProcess(naiad_program(), [tmp_path / "models"], log=tmp_path / "log") as server:
        for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
            with module.InferenceServerClient(address) as client:
                for name, (_, size) in NETWORKS.items():
                    sent = module.InferInput("data", [3, 3, size, size], "FP32")
                    sent.set_data_from_numpy(images(3, size))
                    found = client.infer(name, [sent]).as_numpy("prob")
                    assert found.shape == expected[name].shape
                    np.testing.assert_allclose(found, expected[name], rtol=2e-4, atol=1e-7)
