"""A driver of resource claims (DRA), run in a node: `claims.py PROFILE=COUNT --kubectl PROGRAM --kubeconfig FILE`.

It stands for NVIDIA's driver `gpu.nvidia.com` with MIG slices that exist already. The kubelet finds its registration socket; once it is
registered, it publishes a ResourceSlice with its devices. For each claim of a pod that starts, it writes a CDI file, from which containerd
sets NVIDIA_VISIBLE_DEVICES to the claim's devices. It asks the API server as the node, which may read the claims of its own pods.
"""

import argparse
import concurrent.futures
import json
import pathlib
import socket
import subprocess
import sys
import threading
import typing

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from e2e.devices.messages import (
    CLAIMS,
    CLAIMS_CLASSES as CLASSES,
    REGISTRATION,
    REGISTRATION_CLASSES,
    unary,
)
from e2e.devices.plugin import device_id

DRIVER = "gpu.nvidia.com"
PRODUCT = "NVIDIA H100 80GB HBM3"

_KUBELET = pathlib.Path("/var/lib/kubelet")
_ENDPOINT = _KUBELET / "plugins" / DRIVER / "dra.sock"
REGISTRATION_SOCKET = _KUBELET / "plugins_registry" / f"{DRIVER}-reg.sock"
_CDI = pathlib.Path("/var/run/cdi")
_CDI_KIND = f"k8s.{DRIVER}/claim"

Object = dict[str, typing.Any]


class Driver:
    """The slices of one node.

    Args:
        profile: the MIG profile of all of them.
        count: how many.
        kubectl: its command line, without what to do.
    """

    def __init__(self, profile: str, count: int, kubectl: "list[str]") -> None:
        self._node = socket.gethostname()
        self._profile = profile
        resource = f"nvidia.com/mig-{profile}"
        self._ids = {
            f"gpu-0-mig-{number}": device_id(resource, self._node, number)
            for number in range(count)
        }
        self._kubectl = kubectl

    def serve(self) -> None:
        """Serves both sockets; returns when they are open."""
        prepare = unary(self._prepare, CLASSES["NodePrepareResourcesRequest"])
        unprepare = unary(self._unprepare, CLASSES["NodeUnprepareResourcesRequest"])
        _serve(
            _ENDPOINT,
            f"{CLAIMS}.DRAPlugin",
            {"NodePrepareResources": prepare, "NodeUnprepareResources": unprepare},
        )
        info = unary(self._info, REGISTRATION_CLASSES["InfoRequest"])
        notify = unary(self._registered, REGISTRATION_CLASSES["RegistrationStatus"])
        methods = {"GetInfo": info, "NotifyRegistrationStatus": notify}
        _serve(REGISTRATION_SOCKET, f"{REGISTRATION}.Registration", methods)

    def _info(self, _: typing.Any) -> typing.Any:
        return REGISTRATION_CLASSES["PluginInfo"](
            type="DRAPlugin",
            name=DRIVER,
            endpoint=str(_ENDPOINT),
            supported_versions=["v1.DRAPlugin"],
        )

    def _registered(self, status: typing.Any) -> typing.Any:
        print(f"registered: {status.plugin_registered} {status.error}", flush=True)
        if status.plugin_registered:
            self._publish()
        return REGISTRATION_CLASSES["RegistrationStatusResponse"]()

    def _publish(self) -> None:
        """Creates the ResourceSlice. The kubelet may register a driver twice, and two slices of one pool are an incomplete pool."""
        try:
            self._run("create", "-f", "-", text=json.dumps(self._slice()))
        except RuntimeError as error:
            if "AlreadyExists" not in str(error):
                raise

    def _slice(self) -> Object:
        devices = [
            {
                "name": name,
                "attributes": {
                    "type": {"string": "mig"},
                    "profile": {"string": self._profile},
                    "productName": {"string": PRODUCT},
                    "uuid": {"string": uuid},
                },
            }
            for name, uuid in self._ids.items()
        ]
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{self._node}-{DRIVER}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": self._node,
                "pool": {"name": self._node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }

    def _prepare(self, request: typing.Any) -> typing.Any:
        prepared = {claim.uid: self._prepared(claim) for claim in request.claims}
        return CLASSES["NodePrepareResourcesResponse"](
            claims=[
                CLASSES["PreparedEntry"](key=uid, value=value) for uid, value in prepared.items()
            ]
        )

    def _prepared(self, claim: typing.Any) -> typing.Any:
        """The devices that the scheduler has allocated to a claim; all of them come with the claim's CDI device."""
        try:
            found = self._run("get", "resourceclaim", "-n", claim.namespace, claim.name, "-o", "json")  # fmt: skip
        except RuntimeError as error:
            return CLASSES["Prepared"](error=str(error))
        results = json.loads(found)["status"]["allocation"]["devices"]["results"]
        own = [result for result in results if result["driver"] == DRIVER]
        visible = ",".join(sorted(self._ids[result["device"]] for result in own))
        edits = {"env": [f"NVIDIA_VISIBLE_DEVICES={visible}"]}
        content = {"cdiVersion": "0.6.0", "kind": _CDI_KIND, "devices": [{"name": claim.uid, "containerEdits": edits}]}  # fmt: skip
        _CDI.mkdir(parents=True, exist_ok=True)
        _cdi_file(claim.uid).write_text(json.dumps(content))
        print(f"prepared {claim.namespace}/{claim.name}: {visible}", flush=True)
        return CLASSES["Prepared"](
            devices=[
                CLASSES["Device"](
                    request_names=[result["request"]],
                    pool_name=result["pool"],
                    device_name=result["device"],
                    cdi_device_ids=[f"{_CDI_KIND}={claim.uid}"],
                )
                for result in own
            ]
        )

    def _unprepare(self, request: typing.Any) -> typing.Any:
        for claim in request.claims:
            _cdi_file(claim.uid).unlink(missing_ok=True)
            print(f"unprepared {claim.namespace}/{claim.name}", flush=True)
        return CLASSES["NodeUnprepareResourcesResponse"](
            claims=[
                CLASSES["UnpreparedEntry"](key=claim.uid, value=CLASSES["Unprepared"]())
                for claim in request.claims
            ]
        )

    def _run(self, *arguments: str, text: str = "") -> str:
        """The output of kubectl.

        Raises:
            RuntimeError: it failed.
        """
        command = [*self._kubectl, *arguments]
        finished = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if finished.returncode:
            print(f"kubectl {arguments[0]}: {finished.stderr}", flush=True)
            raise RuntimeError(f"kubectl {arguments[0]}: {finished.stderr.strip()}")
        return finished.stdout


def _cdi_file(uid: str) -> pathlib.Path:
    return _CDI / f"{_CDI_KIND.replace('/', '-')}-{uid}.json"


def _serve(path: pathlib.Path, service: str, methods: "dict[str, grpc.RpcMethodHandler]") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"unix://{path}")
    server.start()
    _servers.append(server)


_servers: "list[grpc.Server]" = []
"""A server that is no longer referenced ends."""


def main() -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("slices", metavar="PROFILE=COUNT")
    parser.add_argument("--kubectl", required=True)
    parser.add_argument("--kubeconfig", required=True)
    given = parser.parse_args()
    profile, _, count = given.slices.partition("=")
    kubectl = [given.kubectl, f"--kubeconfig={given.kubeconfig}"]
    Driver(profile, int(count), kubectl).serve()
    threading.Event().wait()


if __name__ == "__main__":
    main()
