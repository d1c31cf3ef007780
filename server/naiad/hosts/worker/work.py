"""What a worker process does: loads a model, runs its instances, ends; see `main` for its threads and streams, `runner` for batches.

Instances come and go while it runs. The first one has the main thread until it is closed, each further one a thread of its own, in which it is
closed as well. With the last instance the model is closed, and the process ends.
"""

import gc
import importlib
import logging
import os
import queue
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from naiad.backends.instance import Instance, InstanceSpec, LoadedModel
from naiad.backends.python.api import context
from naiad.errors import InferenceError, internal
from naiad.hosts.link import codec, kinds, link
from naiad.hosts.worker import warmup
from naiad.hosts.worker.asking import AskingServer
from naiad.hosts.worker.received_tensors import Returns
from naiad.hosts.worker.runner import Ahead, Runner, not_taken
from naiad.hosts.worker.server_log import LogLevel, ServerLogHandler

_DEBUGGERS = frozenset(("debugpy", "pydevd", "pydevd_pycharm"))
"""Debuggers that stop all threads of a process."""

_log = logging.getLogger("naiad.worker")


class Worker:
    """The worker: one thread per instance, the first of them the main thread, and one that listens to the server's notifications.

    Args:
        data: per instance, loads, batches and outcomes in turn, and whatever the worker posts; see `hosts.link`. Loads come on the first.
        control: what the server posts.
    """

    def __init__(self, data: "Sequence[socket.socket]", control: socket.socket) -> None:
        self._ahead = Ahead()
        self._log_level = LogLevel()
        self._links = [link.Link(each, takes_files=True) for each in data]
        self._control = link.Link(control, takes_sockets=True)
        self._model: Any = None
        self._server = AskingServer(self._links[0])
        self._runners: dict[int, Runner] = {}
        self._changing = threading.Lock()
        self._over = threading.Event()
        Returns.send = self._say_returned

    def _say_returned(self, numbers: bytes) -> None:
        """The process does not use tensors on a device any more; in the thread that waits for the device."""
        self._control.notify(kinds.RETURNED, numbers)

    def run(self) -> int:
        """Work until the last instance is closed, or the server is gone; gives back the exit status."""
        threading.Thread(target=self._listen, name="naiad-control", daemon=True).start()
        try:
            kind, header = self._receive_order()
            if kind == kinds.ONE_SHOT:
                self._run_one_shot(header)
                return 0
            first = self._load(header)
            if first is None:
                return 0
            place, runner = first
            self._serve(place, runner)
            self._over.wait()
        except link.LinkBrokenError:
            return 1
        self._model.close()
        return 0

    def _receive_order(self) -> "tuple[int, bytes | bytearray]":
        to_it = self._links[0]
        while True:
            try:
                kind, _, header = to_it.receive()
            except link.SegmentLostError as lost:
                to_it.send(kinds.REFUSED, codec.write_failure(not_taken(lost)))
            else:
                return kind, header

    def _load(self, header: "bytes | bytearray") -> "tuple[int, Runner] | None":
        """Load the model; the place and the runner of the instance that has this thread, None if the model cannot be loaded."""
        context.worker_server = self._server
        order = codec.read_json(header)
        try:
            self._log_level.ordered(order["log_level"])
            self._model, instances = _guarded(_load_instances, order)
        except InferenceError as refusal:
            self._links[0].send(kinds.REFUSED, codec.write_failure(refusal))
            return None
        for place, data, instance, spec in zip(  # noqa: B905 - 3.8 knows no strict
            order["places"], self._links, instances, order["instances"]
        ):
            runner = self._runners[place] = Runner(data, place, self._ahead)
            runner.open(spec["name"], instance)
        first, *others = self._runners.items()
        ran: list[warmup.WarmupBatch] = []
        warmed: queue.SimpleQueue[list[warmup.WarmupBatch] | InferenceError] = queue.SimpleQueue()
        threads: list[int] = []
        try:
            if order["warms_up"] and not order["instances"][0]["passive"]:
                ran += first[1].warm_up()
            for (place, runner), spec in zip(  # noqa: B905 - as above
                others, order["instances"][1:]
            ):
                if order["warms_up"] and not spec["passive"]:
                    thread = self._start(runner.name, self._warm_up, place, runner, warmed)
                    ran += _unless_error(warmed.get())
                else:
                    thread = self._start(runner.name, self._serve, place, runner)
                threads.append(thread.native_id or 0)
        except InferenceError as refusal:
            self._links[0].send(kinds.REFUSED, codec.write_failure(refusal))
            return None
        # What is there now stays: looking through all of it again and again costs milliseconds in the middle of a batch.
        gc.freeze()
        self._say_loaded(self._links[0], threads, instances, ran)
        return first

    def _warm_up(
        self,
        place: int,
        runner: Runner,
        warmed: "queue.SimpleQueue[list[warmup.WarmupBatch] | InferenceError]",
    ) -> None:
        """Run the warmup samples of an instance in its own thread, and its batches after that; one at a time, as on a device that they share."""
        try:
            ran = runner.warm_up()
        except InferenceError as refusal:
            warmed.put(refusal)
            return
        warmed.put(ran)
        self._serve(place, runner)

    @staticmethod
    def _say_loaded(
        to_it: link.Link,
        threads: "list[int]",
        made: "list[Instance]",
        ran: "list[warmup.WarmupBatch]",
    ) -> None:
        said = {
            "threads": threads,
            "prefetches": all(instance.prefetches for instance in made),
            "gathers_inputs": any(instance.gathers_inputs for instance in made),
            "warmup": ran,
        }
        to_it.send(kinds.LOADED, codec.to_json(said).encode())

    def _start(self, name: str, work: "Callable[..., None]", *arguments: Any) -> threading.Thread:
        """A thread of an instance."""
        thread = threading.Thread(
            target=self._work_apart, args=(name, work, *arguments), name=name, daemon=True
        )
        thread.start()
        return thread

    @staticmethod
    def _work_apart(name: str, work: "Callable[..., None]", *arguments: Any) -> None:
        try:
            work(*arguments)
        except link.LinkBrokenError:
            os._exit(1)
        except BaseException:  # noqa: BLE001 - an instance without its thread would take batches and never answer
            _log.exception("the worker ends: instance '%s' cannot receive batches any more", name)
            os._exit(1)

    def _serve(self, place: int, runner: Runner) -> None:
        """Run batches to the end of an instance, which ends the thread's work, and with the last one that of the process."""
        runner.serve()
        self._leave(place)  # first: once the server knows, another may take the place
        runner.link.send(kinds.CLOSED, b"{}")
        runner.link.close()

    def _leave(self, place: int) -> None:
        with self._changing:
            del self._runners[place]
            if not self._runners:
                self._over.set()

    def _add(self, header: "bytes | bytearray") -> None:
        """Another instance, which is made in its own thread; in the thread that listens."""
        data = self._control.take_socket()
        order = codec.read_json(header)
        place = order["place"]
        if (
            data is None
        ):  # the process has no descriptor left for it: the server sees that its own end is closed
            return
        runner = Runner(link.Link(data, takes_files=True), place, self._ahead)
        spec = InstanceSpec.from_map(order["instance"])
        with self._changing:
            self._runners[place] = runner
        try:
            self._start(
                spec.name, self._make, place, runner, spec, order["warms_up"] and not spec.passive
            )
        except (RuntimeError, MemoryError) as error:  # the system has no more threads
            self._refuse(place, runner, internal(f"no thread could be started: {error}"))

    def _make(
        self,
        place: int,
        runner: Runner,
        spec: InstanceSpec,
        warms_up: bool,  # noqa: FBT001 - as thread arguments are given
    ) -> None:
        ran: list[warmup.WarmupBatch] = []
        try:
            instance = _guarded(self._model.make_instance, spec)
            runner.open(spec.name, instance)
            if warms_up:
                ran = runner.warm_up()
        except InferenceError as refusal:
            if runner.instance is not None:
                runner.instance.close()
            self._refuse(place, runner, refusal)
            return
        self._say_loaded(runner.link, [threading.get_native_id()], [instance], ran)
        self._serve(place, runner)

    def _refuse(self, place: int, runner: Runner, refusal: InferenceError) -> None:
        self._leave(place)
        runner.refuse(refusal)
        runner.link.close()

    def _run_one_shot(self, header: "bytes | bytearray") -> None:
        to_it = self._links[0]
        try:
            order = codec.read_json(header)
            self._log_level.ordered(order["log_level"])
            result = _guarded(_load, order)
            to_it.send(kinds.DONE, codec.to_json(result).encode())
        except InferenceError as refusal:
            to_it.send(kinds.REFUSED, codec.write_failure(refusal))

    def _listen(self) -> None:
        self._ahead.listener = threading.get_ident()
        try:
            while True:
                try:
                    kind, number, header = self._control.receive()
                except link.SegmentLostError as lost:
                    self._server.failed(lost.number, f"its answer could not be received: {lost}")
                else:
                    self._hear(kind, number, header)
        except link.LinkBrokenError:
            pass
        except BaseException:  # noqa: BLE001 - the process ends, whatever it is
            # No cancel and no reply would be received any more, and calls that wait for one would wait for ever.
            _log.exception("the worker ends: it cannot listen to the server any more")
        os._exit(1)

    def _hear(self, kind: int, number: int, header: "bytes | bytearray") -> None:
        if kind == kinds.CREDIT:
            self._ahead.taken(number)
        elif kind == kinds.RESULT:
            self._server.on_reply(number, header, self._control.take_notification())
        elif kind == kinds.ERROR:
            self._server.failed(number, header.decode())
        elif kind == kinds.TO_HOST:
            self._server.repeat(number)
        elif kind in (kinds.RELEASE, kinds.OWNER_ENDED):
            _hear_of_tensors(kind, number)
        elif kind == kinds.ASK_ALIVE:
            self._control.notify(
                kinds.ALIVE, b"", None, int(not _DEBUGGERS.isdisjoint(sys.modules))
            )
        elif kind == kinds.ADD:
            self._add(header)
        elif kind == kinds.LOG_LEVEL:
            self._log_level.told(number)
        else:
            runner = self._runners.get(number >> link.PLACE_SHIFT)
            if runner is not None:  # else the instance was closed meanwhile
                runner.hear(kind, number)


def _hear_of_tensors(kind: int, number: int) -> None:
    """A notification about tensors on a device."""
    if kind == kinds.RELEASE:
        importlib.import_module("naiad.hosts.worker.gpu.exports").EXPORTS.release(number)
    else:
        importlib.import_module("naiad.hosts.worker.gpu.imports").IMPORTS.owner_ended(number)


def _unless_error(
    ran: "list[warmup.WarmupBatch] | InferenceError",
) -> "list[warmup.WarmupBatch]":
    """What was run.

    Raises:
        InferenceError: it is one.
    """
    if isinstance(ran, InferenceError):
        raise ran
    return ran


def _load(order: "dict[str, Any]") -> Any:
    """What the callable of an order makes of its settings."""
    context.in_worker = True
    logging.basicConfig(handlers=[ServerLogHandler()], level=logging.WARNING, force=True)
    module, _, name = order["load"].partition(":")
    return getattr(importlib.import_module(module), name)(order["settings"])


def _load_instances(order: "dict[str, Any]") -> "tuple[LoadedModel, list[Instance]]":
    model = _load(order)
    return model, [model.make_instance(InstanceSpec.from_map(each)) for each in order["instances"]]


def _guarded(load: "Callable[[Any], Any]", what: Any) -> Any:
    """Load a model, or make an instance.

    Raises:
        InferenceError: it refused, or raised whatever else.
    """
    try:
        return load(what)
    except InferenceError:
        raise
    except BaseException as error:
        # Also SystemExit: whatever it is, it is sent to the server.
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        raise internal(text) from error
