"""A device plugin, run in a node: `plugin.py RESOURCE=COUNT [RESOURCE=COUNT …] --unhealthy FOLDER`.

Each device is called `<node>-<resource>-<number>`. An allocation sets NVIDIA_VISIBLE_DEVICES to the devices of the container, as NVIDIA's
plugin does. A file in FOLDER with the name of a device makes it unhealthy. The kubelet empties its folder when it starts: the plugin
notices that its socket is gone, and registers again.
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

from e2e.devices.messages import CLASSES, PACKAGE

_KUBELET = pathlib.Path("/var/lib/kubelet/device-plugins")
_STEP_S = 0.2


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
        kind = resource.rpartition("/")[2]
        self._names = [f"{socket.gethostname()}-{kind}-{number}" for number in range(count)]
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
            version=PACKAGE, endpoint=self._socket.name, resource_name=self._resource
        )
        with grpc.insecure_channel(f"unix://{_KUBELET / 'kubelet.sock'}") as channel:
            register = channel.unary_unary(
                f"/{PACKAGE}.Registration/Register",
                request_serializer=type(request).SerializeToString,
                response_deserializer=CLASSES["Empty"].FromString,
            )
            register(request, timeout=5)
        print(f"registered {self._resource}: {', '.join(self._names)}", flush=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        def unary(function: typing.Any, request: str) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(
                function, CLASSES[request].FromString, lambda message: message.SerializeToString()
            )

        watch = grpc.unary_stream_rpc_method_handler(
            self._list_and_watch,
            CLASSES["Empty"].FromString,
            lambda message: message.SerializeToString(),
        )
        methods = {
            "GetDevicePluginOptions": unary(lambda *_: CLASSES["DevicePluginOptions"](), "Empty"),
            "ListAndWatch": watch,
            "Allocate": unary(self._allocate, "AllocateRequest"),
        }
        return grpc.method_handlers_generic_handler(f"{PACKAGE}.DevicePlugin", methods)

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

    def _allocate(self, request: typing.Any, _: grpc.ServicerContext) -> typing.Any:
        responses = [
            CLASSES["ContainerAllocateResponse"](
                envs=[
                    CLASSES["Environment"](
                        key="NVIDIA_VISIBLE_DEVICES", value=",".join(container.devices_ids)
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
