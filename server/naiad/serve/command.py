"""The command `serve`: from the options to the exit status. `server.py` makes and starts the parts."""

import contextlib
import logging
import os
import pathlib
import resource
import sys
import threading

import uvloop

from naiad import __version__, logs
from naiad.backends.catalog import OWN, Catalog
from naiad.core.processes.malloc import MALLOC
from naiad.hosts.cpu_affinity import INSTANCES
from naiad.options.options import DEFAULT_AGENT_DIRECTORY, DEFAULT_BACKEND_DIRECTORY, Options
from naiad.repository.store import local_root
from naiad.repository.stores.process import StoreProcess
from naiad.serve import interpreter

log = logging.getLogger("naiad.serve")

_MIN_DESCRIPTORS = 64
"""Descriptors of a server with one model and a few connections. With fewer its start fails, not always with a clear message."""


def serve(options: Options, *, command: str) -> int:
    """Serve until a signal stops the server: 0 after an orderly stop, 1 after an error (rows 7.32, 17.14)."""
    if interpreter.is_free_threaded():
        sys.stderr.write(
            f"{command}: error: {sys.executable} is a free-threaded build of Python, which is not supported: use a Python with the interpreter lock\n"
        )
        return 1
    if not _configure_logs(options, command):
        return 1
    for note in options.notes:
        log.warning("%s", note)
    limit = raise_descriptor_limit()
    if limit < _MIN_DESCRIPTORS:
        log.error(
            "at most %d files and connections may be open (RLIMIT_NOFILE), but a server needs %d, and more with each connection and "
            "model instance: raise the hard limit (ulimit -Hn)",
            limit,
            _MIN_DESCRIPTORS,
        )
        logging.shutdown()
        return 1
    _log_versions(options)
    MALLOC.limit_arenas(os.environ)
    stores = StoreProcess(
        directory=options.repository_cache_directory,
        limit=options.repository_cache_bytes,
        environ=os.environ,
    )
    stores.begin(place for place in options.model_repository if local_root(place) is None)
    # Only now: meanwhile the process of the stores imports their packages.
    from naiad.serve.console import open_console  # noqa: PLC0415
    from naiad.serve.server import Server  # noqa: PLC0415

    status = uvloop.run(Server(options, console=open_console(), stores=stores).run())
    if not status:
        log.info("stopped")
    logging.shutdown()
    others = (
        thread for thread in threading.enumerate() if thread is not threading.current_thread()
    )
    if status or INSTANCES.left or not all(thread.daemon for thread in others):
        # A thread that does not end (a model that hangs in a call) must neither keep the process alive nor meet an interpreter that ends.
        sys.stdout.flush()
        os._exit(status)
    return status


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one, if that is allowed; returns the current limit.

    Each connection uses a descriptor, and each busy model instance two more. A shell starts programs with a soft limit of 1,024 for programs
    that use `select`; the hard limit is for servers.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # a system may set a lower bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _log_versions(options: Options) -> None:
    """One line with the versions and backends, for readers of a log."""
    directory = pathlib.Path(options.backend_directory)
    for name, folder, default in (
        ("backend", options.backend_directory, DEFAULT_BACKEND_DIRECTORY),
        ("repoagent", options.repoagent_directory, DEFAULT_AGENT_DIRECTORY),
    ):
        if folder != default and not pathlib.Path(folder).is_dir():
            log.warning("--%s-directory=%s is not a folder: nothing is taken from it", name, folder)
    python = sys.version.split()[0]
    backends = sorted((*OWN, *Catalog(directory).names_in_directory()))
    log.info(
        "Naiad %s on Python %s; backends: %s",
        __version__,
        python,
        ", ".join(backends),
        extra={"naiad": __version__, "python": python, "backends": backends},
    )
    if not interpreter.is_optimized():
        log.info(
            "Python %s (%s) was built without optimization: Python code, also that of models, runs a third slower than in one that was built "
            "with --enable-optimizations, such as the distribution's own (/usr/bin/python3)",
            python,
            sys.executable,
        )


def _configure_logs(options: Options, command: str) -> bool:
    try:
        logs.configure(
            info=options.log_info,
            warning=options.log_warning,
            error=options.log_error,
            verbose=options.log_verbose,
            line_format=options.log_format,
            file=options.log_file,
        )
    except OSError as error:
        sys.stderr.write(f"{command}: error: --log-file={options.log_file}: {error.strerror}\n")
        return False
    return True
