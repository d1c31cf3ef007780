"""The NVIDIA driver in a pod of a node without GPUs: a ConfigMap with a made-up `pynvml`, and how a service mounts it."""

import base64
import ctypes
import pathlib
import typing

from tests.support import sliced_gpu

Object = dict[str, typing.Any]

_NAME = "driver"
_FOLDER = "/driver"
_LIBRARY = "libdl.so.2"


def config_map() -> Object:
    """The files of the driver. A small library of the C library's stands for the driver's own, which the server only loads."""
    ctypes.CDLL(_LIBRARY)
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    library = pathlib.Path(next(line.split()[-1] for line in maps if line.endswith(_LIBRARY)))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _NAME},
        "data": {sliced_gpu.MODULE.name: sliced_gpu.MODULE.read_text()},
        "binaryData": {sliced_gpu.DRIVER: base64.b64encode(library.read_bytes()).decode()},
    }


def fields() -> Object:
    """The fields of `spec.predictor` with which its pods find the driver."""
    mount = {"name": _NAME, "mountPath": _FOLDER, "readOnly": True}
    volume = {"name": _NAME, "configMap": {"name": _NAME}}
    environment = {
        "PYTHONPATH": _FOLDER,
        "LD_LIBRARY_PATH": _FOLDER,
        sliced_gpu.MEETING: "/tmp/meeting",  # noqa: S108 - the pod's own
    }
    containers = [{"name": "server", "volumeMounts": [mount]}]
    return {
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "podTemplate": {"spec": {"volumes": [volume], "containers": containers}},
    }
