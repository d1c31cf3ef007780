"""The command `serve`: from the options to the exit status. `server.py` makes and starts the parts."""

import logging
import os
import pathlib
import sys
import threading

import uvloop

from naiad import __version__, logs
from naiad.backends.catalog import OWN, Catalog
from naiad.options.options import DEFAULT_BACKEND_DIRECTORY, Options
from naiad.serve import descriptors, interpreter
from naiad.serve.console import open_console
from naiad.serve.server import Server

log = logging.getLogger("naiad.serve")


def serve(options: Options, *, command: str) -> int:
    """Serve until a signal stops the server.

    Returns:
        0 after an orderly stop, 1 after an error (rows 7.32, 17.14).
    """
    if interpreter.is_free_threaded():
        sys.stderr.write(
            f"{command}: {sys.executable} is a free-threaded build of Python, which is not supported: use a Python with the interpreter lock\n"
        )
        return 1
    if not _configure_logs(options, command):
        return 1
    for note in options.notes:
        log.warning("%s", note)
    if problem := descriptors.too_few(descriptors.raise_limit()):
        log.error("%s", problem)
        logging.shutdown()
        return 1
    _log_versions(options)
    status = uvloop.run(Server(options, console=open_console()).run())
    if not status:
        log.info("stopped")
    logging.shutdown()
    others = (
        thread for thread in threading.enumerate() if thread is not threading.current_thread()
    )
    if status or not all(thread.daemon for thread in others):
        # A thread that does not end (a model that hangs in a call) must not keep the process alive.
        sys.stdout.flush()
        os._exit(status)
    return status


def _log_versions(options: Options) -> None:
    """One line with the versions and backends, for readers of a log."""
    directory = pathlib.Path(options.backend_directory)
    if options.backend_directory != DEFAULT_BACKEND_DIRECTORY and not directory.is_dir():
        log.warning(
            "--backend-directory=%s is not a folder: no backends are taken from it", directory
        )
    python = sys.version.split()[0]
    backends = sorted((*OWN, *Catalog(directory).python_based_names()))
    log.info(
        "Naiad %s on Python %s; backends: %s",
        __version__,
        python,
        ", ".join(backends),
        extra={"naiad": __version__, "python": python, "backends": backends},
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
        sys.stderr.write(f"{command}: --log-file={options.log_file}: {error.strerror}\n")
        return False
    return True
