"""Caffe2's NetDefs, as users see them: the answers over both protocols, and what is said of a model that cannot be served."""

import json
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.reference.process import ServerProcess, naiad_program
from tests.support.netdef import Op, write
from tests.wire.plain_http import call

CONFIG = """\
platform: "caffe2_netdef"
max_batch_size: 8
input { name: "data" data_type: TYPE_FP32 dims: [ 2, 4, 4 ] }
dynamic_batching { }
"""
WEIGHTS = {"w": np.ones((1, 2, 1, 1), np.float32), "b": np.array([-3], np.float32)}
OPS: list[Op] = [
    ("Conv", ("data", "w", "b"), ("conv",), {"kernel": 1}),
    ("Relu", ("conv",), ("conv",), {}),
    ("MaxPool", ("conv",), ("y",), {"kernel": 3, "stride": 2, "legacy_pad": 3}),
]
X = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)


def model(
    repository: pathlib.Path, name: str, ops: list[Op] = OPS, config: str = CONFIG
) -> pathlib.Path:
    version = repository / name / "1"
    write(version, ops, ["data"], ["y"], WEIGHTS)
    (repository / name / "config.pbtxt").write_text(config)
    return version


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("caffe2")
    models = folder / "models"
    model(models, "good")
    process = 'parameters { key: "naiad.host" value { string_value: "process" } }'
    model(
        models, "apart", config=f"{CONFIG} {process} instance_group {{ count: 2 kind: KIND_CPU }}"
    )
    model(
        models,
        "unknown",
        [*OPS, ("GenerateProposals", ("conv",), ("q",), {}), ("NMS", ("y",), ("z",), {})],
    )
    (model(models, "alone") / "init_model.netdef").unlink()
    cut = model(models, "cut") / "model.netdef"
    cut.write_bytes(cut.read_bytes()[:-20])
    with ServerProcess(
        naiad_program(),
        [models],
        log=folder / "log",
        options=["--exit-on-error=false"],
    ) as running:
        yield running


@pytest.mark.parametrize("name", ["good", "apart"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_net_is_served(server: ServerProcess, name: str, rows: int) -> None:
    for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            sent = module.InferInput("data", [rows, 2, 4, 4], "FP32")
            sent.set_data_from_numpy(np.repeat(X, rows, 0))
            found = client.infer(name, [sent]).as_numpy("y")
            # A pixel is 2 i + 16 - 3, and the last windows reach beyond the image.
            assert found.tolist() == [[[[33, 35], [41, 43]]]] * rows


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "unknown",
            "operator 3 of model.netdef (GenerateProposals -> 'q') is not in the table of operators; operator 4 of model.netdef (NMS -> 'z') is not in the table",
        ),
        ("alone", "1/init_model.netdef' (the init net, which holds the weights of 'model.netdef')"),
        ("cut", "1/model.netdef' is cut off after"),
    ],
)
def test_what_cannot_be_served_is_named_and_harms_nothing_else(
    server: ServerProcess, name: str, reason: str
) -> None:
    _, body = call(server.http, "POST", "/v2/repository/index")
    entries = {each["name"]: each for each in json.loads(body)}
    assert entries[name]["state"] == "UNAVAILABLE"
    assert reason in entries[name]["reason"]
    assert entries["good"]["state"] == "READY"
