"""A worker process: `python …/naiad/hosts/worker/main.py --model … --version … --instance … --data-fd N [N …] --control-fd N`.

The main thread takes a batch, runs it and answers, over and over; each further instance has a thread that does the same. One more thread listens on the control socket also while a batch
runs, for cancels and the question whether the model is ready, and ends the process when the server is gone. The system ends
it as well (PDEATHSIG), for the case that a model holds the interpreter.

What the model prints goes to the server through a pipe; what it logs goes the same way, as JSON behind a mark, so that the order of
lines stays. Ctrl-C and SIGTERM are the server's: a worker ends when the server says so. SIGUSR2 writes the stacks of all
threads to the pipe.
"""

import argparse
import atexit
import contextlib
import ctypes
import faulthandler
import importlib
import importlib.util
import os
import pathlib
import signal
import socket
import sys
import threading
import traceback
from typing import Any

_EXIT_S = 5.0
"""How long what a model registered for the end may take."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_NAME_BYTES = 15
_ARGUMENTS_START = 45
"""Where /proc/self/stat says, behind the process's name, at which address its arguments lie."""


def main() -> None:
    """Run, and be gone at once when it is over.

    An interpreter that shuts down closes the link well before it is gone, and the server could not say how its worker ended. And
    threads that a model left running must not keep the process.
    """
    try:
        _end(_run())
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
        _end(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:  # noqa: BLE001 - whatever it is, this is the end
        traceback.print_exc()
        _end(1)


def _end(status: int) -> None:
    """Run what the model registered for the end (`atexit`, `weakref.finalize`), but not for long, and be gone."""
    out_of_time = threading.Timer(_EXIT_S, os._exit, (status,))
    out_of_time.daemon = True
    with contextlib.suppress(
        RuntimeError, MemoryError
    ):  # no more threads: the server ends a worker that does not
        out_of_time.start()
    try:
        atexit._run_exitfuncs()  # noqa: SLF001 - nothing public runs them without all else that an interpreter does at its end
    except BaseException:  # noqa: BLE001 - whatever it is, this is the end
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _run() -> int:
    """Work to the end; gives back the exit status."""
    _find_naiad()
    arguments = _arguments()
    _be_a_child(arguments.parent, arguments.instance)
    if arguments.nice:
        os.nice(arguments.nice)  # before anything starts threads, which inherit it
    if arguments.cores or arguments.numa_node is not None:
        _place(arguments.cores, arguments.numa_node)
    title = f"naiad-worker --model {arguments.model} --version {arguments.version} --instance {arguments.instance}"
    with contextlib.suppress(OSError, ValueError):
        _show(title.encode())
    data = [socket.socket(fileno=each) for each in arguments.data_fd]
    control = socket.socket(fileno=arguments.control_fd)
    version = ".".join(map(str, sys.version_info[:3]))
    if "t" in sys.abiflags:
        sys.exit(
            f"{sys.executable} (Python {version}) is a free-threaded build, in which models are not supported: use an environment with a "
            "usual one"
        )
    if importlib.util.find_spec("numpy") is None:
        sys.exit(
            f"{sys.executable} (Python {version}) has no numpy, which the process of a model needs: add it to its environment"
        )
    # Only now: the package was not there before.
    worker = importlib.import_module("naiad.hosts.worker.work").Worker(data, control)
    return int(worker.run())


def _find_naiad() -> None:
    """Make this package importable, and nothing else of where the server is installed."""
    here = pathlib.Path(__file__).resolve()
    folder = here.parents[2]
    if sys.path and pathlib.Path(sys.path[0]).resolve() == here.parent:
        del sys.path[0]
    spec = importlib.util.spec_from_file_location(
        "naiad", str(folder / "__init__.py"), submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["naiad"] = module
    spec.loader.exec_module(module)


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description="A worker process of naiad serve")
    for name in ("model", "version", "instance"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--data-fd", type=int, required=True, nargs="+")
    for name in ("control-fd", "parent"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--cores", default="")
    parser.add_argument("--numa-node", type=int)
    parser.add_argument("--nice", type=int, default=0)
    return parser.parse_args()


def _place(cores: str, numa_node: "int | None") -> None:
    """Follow the host policy, before anything starts threads, which inherit it."""
    placement = importlib.import_module("naiad.hosts.worker.placement")
    numbers = tuple(int(each) for each in cores.split(",") if each)
    try:
        placement.place(placement.HostPolicy(numbers, numa_node))
    except OSError as error:
        sys.exit(error.strerror)


def _be_a_child(parent: int, instance: str) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before we could say so
        os._exit(1)
    libc.prctl(_PR_SET_NAME, instance.encode()[-_NAME_BYTES:], 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A handler and not SIG_IGN, which programs that the model starts would inherit.
        signal.signal(number, _leave_to_the_server)
    os.register_at_fork(after_in_child=_hear_again)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    for stream in (sys.stdout, sys.stderr):
        # Whole lines as they come, whatever characters a model prints.
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]  # these are text files


def _show(title: bytes) -> None:
    """Write over the command line that ps shows, whose beginning says only which interpreter it is."""
    fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_START + 1])
    room = end - start - 1
    if 0 < start < end and len(title) <= room:
        ctypes.memmove(start, title.ljust(room, b"\0"), room)


def _leave_to_the_server(number: int, frame: Any) -> None:
    """Do nothing."""


def _hear_again() -> None:
    """What the model forks is the model's to end: `Pool.terminate` waits for ever for a child that SIGTERM does not end."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is _leave_to_the_server:
            signal.signal(number, usual)


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    # multiprocessing reads this file in a process that it starts for a model, before what the model sends there.
    _find_naiad()
    importlib.import_module("naiad.backends.python.worker_model").know_the_model()
