"""A device plugin, run in a node: `plugin.py RESOURCE=COUNT [RESOURCE=COUNT …] --unhealthy FOLDER`.

An allocation sets NVIDIA_VISIBLE_DEVICES to the devices of the container, as NVIDIA's plugin does. A file in FOLDER with the name of a
device makes it unhealthy. The kubelet empties its folder when it starts: the plugin notices that its socket is gone, and registers again.
"""

import argparse
import concurrent.futures
import pathlib
import socket
import sys
import threading
import time
import typing
from collections.abc import Iterator

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from e2e.devices.messages import DEVICE_PLUGIN, DEVICE_PLUGIN_CLASSES as CLASSES, serialized, unary

_KUBELET = pathlib.Path("/var/lib/kubelet/device-plugins")
_STEP_S = 0.2


def device_id(resource: str, host: str, number: int) -> str:
    """The name of a device, as NVIDIA's begin: `MIG-node-a-1g.10gb-0` is one of `nvidia.com/mig-1g.10gb` on node-a."""
    kind = resource.rpartition("/")[2]
    profile = kind.removeprefix("mig-")
    return f"{'GPU' if profile == kind else 'MIG'}-{host}-{profile}-{number}"


class Plugin:
    """The devices of one resource.

    Args:
        resource: its name, such as `nvidia.com/mig-1g.10gb`.
        count: how many.
        unhealthy: a folder with a file for each device that is unhealthy.
    """

    def __init__(self, resource: str, count: int, unhealthy: pathlib.Path) -> None:
        self._resource = resource
        self._unhealthy = unhealthy
        host = socket.gethostname()
        self._names = [device_id(resource, host, number) for number in range(count)]
        self._socket = _KUBELET / f"{resource.replace('/', '_')}.sock"

    def run(self) -> typing.NoReturn:
        """Serves and registers, again whenever the kubelet has forgotten it."""
        while True:
            try:
                self._serve()
            except (OSError, grpc.RpcError, RuntimeError) as error:
                print(f"{self._resource}: {error!r}; trying again", flush=True)
            time.sleep(_STEP_S)

    def _serve(self) -> None:
        self._socket.unlink(missing_ok=True)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        server.add_generic_rpc_handlers((self._handlers(),))
        server.add_insecure_port(f"unix://{self._socket}")
        server.start()
        try:
            self._register()
            while self._socket.exists():
                time.sleep(_STEP_S)
        finally:
            server.stop(None)

    def _register(self) -> None:
        request = CLASSES["RegisterRequest"](
            version=DEVICE_PLUGIN, endpoint=self._socket.name, resource_name=self._resource
        )
        with grpc.insecure_channel(f"unix://{_KUBELET / 'kubelet.sock'}") as channel:
            register = channel.unary_unary(
                f"/{DEVICE_PLUGIN}.Registration/Register", serialized, CLASSES["Empty"].FromString
            )
            register(request, timeout=5)
        print(f"registered {self._resource}: {', '.join(self._names)}", flush=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        watch = grpc.unary_stream_rpc_method_handler(
            self._list_and_watch, CLASSES["Empty"].FromString, serialized
        )
        methods = {
            "GetDevicePluginOptions": unary(
                lambda _: CLASSES["DevicePluginOptions"](), CLASSES["Empty"]
            ),
            "ListAndWatch": watch,
            "Allocate": unary(self._allocate, CLASSES["AllocateRequest"]),
        }
        return grpc.method_handlers_generic_handler(f"{DEVICE_PLUGIN}.DevicePlugin", methods)

    def _list_and_watch(self, _: typing.Any, context: grpc.ServicerContext) -> Iterator[typing.Any]:
        last: list[tuple[str, str]] = []
        while context.is_active():
            devices = [(name, self._health(name)) for name in self._names]
            if devices != last:
                last = devices
                listed = [CLASSES["Device"](ID=name, health=health) for name, health in devices]
                yield CLASSES["ListAndWatchResponse"](devices=listed)
            time.sleep(_STEP_S)

    def _health(self, name: str) -> str:
        return "Unhealthy" if (self._unhealthy / name).exists() else "Healthy"

    def _allocate(self, request: typing.Any) -> typing.Any:
        responses = [
            CLASSES["ContainerAllocateResponse"](
                envs=[
                    CLASSES["Environment"](
                        key="NVIDIA_VISIBLE_DEVICES", value=",".join(sorted(container.devices_ids))
                    )
                ]
            )
            for container in request.container_requests
        ]
        return CLASSES["AllocateResponse"](container_responses=responses)


def main() -> None:
    """Run a plugin per resource until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("resources", nargs="+", metavar="RESOURCE=COUNT")
    parser.add_argument("--unhealthy", type=pathlib.Path, default=pathlib.Path("/run/unhealthy"))
    given = parser.parse_args()
    threads = []
    for resource in given.resources:
        name, _, count = resource.partition("=")
        plugin = Plugin(name, int(count), given.unhealthy)
        threads.append(threading.Thread(target=plugin.run))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # or the interpreter would begin to end


if __name__ == "__main__":
    main()
