"""Faults of the control plane, each for the length of a context."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

from e2e.cluster import namespaces
from e2e.cluster.cluster import Cluster


@contextlib.contextmanager
def api_server_away(cluster: Cluster) -> Iterator[None]:
    """Ends the API server as a crash does. At the end of the context it is started again, and ready."""
    pids = cluster.processes("kube-apiserver")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    namespaces.wait("the end of the API server", lambda: not any(map(namespaces.exists, pids)))
    try:
        yield
    finally:
        cluster.start_api_server()


@contextlib.contextmanager
def slow_etcd(cluster: Cluster, *, stopped: float, running: float) -> Iterator[None]:
    """Makes etcd stand still again and again, as on a disk that is too slow.

    Args:
        cluster: the cluster.
        stopped: for how many seconds at a time.
        running: for how many seconds in between.
    """
    [pid] = cluster.processes("etcd")
    # With the nsenter that waits for it: that stops by itself with its child, and would stay so.
    group = os.getpgid(pid)
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            os.killpg(group, signal.SIGSTOP)
            ended.wait(stopped)
            os.killpg(group, signal.SIGCONT)
            ended.wait(running)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        # The nsenter may notice its child's stop only now, and stop once more: it could never see the child's end, nor could the cluster end.
        for _ in range(5):
            time.sleep(0.1)
            os.killpg(group, signal.SIGCONT)
