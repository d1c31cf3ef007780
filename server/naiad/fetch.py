"""`naiad fetch URI --to FOLDER`: bring a model repository into a folder, each model whole or not at all; or into a cache folder of servers; or any files.

For init containers and scripts that have credentials which the server should not have. What is fetched is copied beside FOLDER first and takes its
name at the end, so that a server never sees half a model, and a fetch that was killed is simply run again. What is there
already is not copied again. Only a folder that an earlier fetch made is ever replaced.
"""

import argparse
import collections.abc
import contextlib
import errno
import fcntl
import json
import logging
import os
import pathlib
import shutil
import signal
import sys
import time
import types
import typing

from typing_extensions import override

from naiad.errors import InferenceError, invalid
from naiad.options.command_parser import CommandParser
from naiad.repository.reading import contents
from naiad.repository.reading.copy_progress import Progress, amount, counted
from naiad.repository.reading.files import open_files
from naiad.repository.reading.source import Holdings, RemoteSource, Source, open_source
from naiad.repository.reading.store_session import SharedCache
from naiad.repository.stores.cache import OPTION as CACHE_OPTION

DONE, FAILED, USAGE = 0, 1, 2

_MARK = ".naiad-fetch.json"
"""A file in each fetched folder that names its source. The server does not read hidden entries."""

_TERMINATED = 128 + signal.SIGTERM


def main(arguments: collections.abc.Sequence[str]) -> int:
    """Run the command.

    Args:
        arguments: the words after `naiad fetch`.

    Returns:
        0 when the models are there, 1 when they could not be fetched, 2 when the command itself is wrong.
    """
    try:
        options = parser().parse_args(arguments)
    except SystemExit as exit_:  # argparse has said why, or shown its help
        return USAGE if exit_.code else DONE
    if message := _misused(options):
        sys.stderr.write(f"naiad fetch: {message}\n")
        return USAGE
    # The first process of a container has no default for SIGTERM: without a handler a pod would wait for its whole grace period.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = _run(options)
        while options.every is not None:
            time.sleep(options.every)
            status = _run(options)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


def _misused(options: argparse.Namespace) -> str:
    """What is wrong with the options together; "" for nothing."""
    folder, directory = options.to, options.repository_cache_directory
    if not options.uri or "" in (folder, directory):
        return "URI, --to or --repository-cache-directory is empty; is a variable of yours not set?"
    if folder is None and directory is None:
        return "write --to=FOLDER, or --repository-cache-directory=FOLDER"
    if folder is None and options.files:
        return "--files needs a folder for the files: write --to=FOLDER"
    if folder is not None and options.every is not None:
        return "--every is for a cache alone: leave --to out"
    return ""


def _run(options: argparse.Namespace) -> int:
    """One fetch."""
    folder, directory = options.to, options.repository_cache_directory
    cache = (
        SharedCache(pathlib.Path(directory).absolute(), options.repository_cache_bytes)
        if directory is not None
        else None
    )
    try:
        with _reports():
            if folder is not None:
                target = pathlib.Path(folder)
                summary, failed = fetch(options.uri, target, cache, files=options.files)
            else:
                assert cache is not None, "one of both is there"
                summary, failed = fill(options.uri, cache)
    except InferenceError as error:
        sys.stderr.write(f"naiad fetch: error: {error.message}\n")
        return FAILED
    except OSError as error:
        option = f"--to={folder}" if folder is not None else f"{CACHE_OPTION}={directory}"
        sys.stderr.write(f"naiad fetch: error: {option}: {_unwritable(error)}\n")
        return FAILED
    sys.stdout.write(f"naiad fetch: {summary}\n")
    sys.stdout.flush()
    for reason in failed:
        sys.stderr.write(f"naiad fetch: error: {reason}\n")
    return FAILED if failed else DONE


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = CommandParser(
        prog="naiad fetch",
        description="Bring a model repository into a folder, each model whole or not at all, or into a cache folder of servers.",
        epilog="Exit status: 0 the models are there, 1 they could not be fetched, 2 the command is wrong.",
    )
    made.add_argument(
        "uri", metavar="URI", help="the model repository, as --model-repository takes it"
    )
    made.add_argument(
        "--to",
        metavar="FOLDER",
        help="where to; it must not exist yet, be empty, or come from an earlier fetch",
    )
    made.add_argument(
        "--files",
        action="store_true",
        help="bring all files of a folder, or one file, as they are; URI need not be a model repository",
    )
    made.add_argument(
        CACHE_OPTION,
        metavar="FOLDER",
        help="a cache folder that servers and other fetches use as well: what is in it is not downloaded; without --to it is only filled",
    )
    made.add_argument(
        "--repository-cache-bytes",
        type=_bytes,
        default=0,
        metavar="N",
        help="the largest size of the cache folder; objects that no server uses are removed, the least recently used first (default: 0, no limit)",
    )
    made.add_argument(
        "--every",
        type=_seconds,
        metavar="SECONDS",
        help="fill the cache again and again, so that it has what was changed; an error is reported and tried again",
    )
    return made


def _bytes(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of bytes")
    return int(text)


def _seconds(text: str) -> float:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds, from 1")
    return int(text)


@contextlib.contextmanager
def _reports() -> collections.abc.Iterator[None]:
    """Shows what the repository logs: an archive is downloaded before its models can be counted."""
    logger, handler = logging.getLogger("naiad.repository"), _Reports()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


class _Reports(logging.Handler):
    @override
    def emit(self, record: logging.LogRecord) -> None:
        _say(record.getMessage())


def _terminated(number: int, frame: types.FrameType | None) -> typing.NoReturn:
    raise SystemExit(_TERMINATED)


def fetch(
    uri: str, folder: pathlib.Path, cache: SharedCache | None = None, *, files: bool = False
) -> tuple[str, list[str]]:
    """Copy a repository into a folder.

    Args:
        uri: the repository.
        folder: where to.
        cache: a folder of objects that servers use as well.
        files: copy what is there as it is; it need not be a repository.

    Returns:
        What was done, for people, and why models could not be copied.

    Raises:
        InferenceError: the repository cannot be read or copied, or the folder holds something else.
        OSError: the folder cannot be written.
    """
    folder = folder.absolute()
    opened = open_files if files else open_source
    source = opened(uri, objects=_beside(folder, "objects"), shared=cache)
    with contextlib.closing(source):
        source.check_target(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            return _fetch(source, folder)


def fill(uri: str, cache: SharedCache) -> tuple[str, list[str]]:
    """Download what a cache folder lacks of a repository.

    Returns:
        What was done, for people, and why models could not be downloaded.

    Raises:
        InferenceError: the repository cannot be read, or the cache has no room for it.
    """
    source = open_source(uri, objects=cache.folder, shared=cache)
    if not isinstance(source, RemoteSource):
        raise invalid(f"{uri}: is a folder: a cache is for what is downloaded, so give an address")
    with contextlib.closing(source):
        holdings = source.holdings()
        failed = [f"model '{name}': {reason}" for name, reason in holdings.failed.items()]
        source.fill(Progress(models=holdings.models, size=holdings.size, say=_say).advance)
        models = counted(holdings.models, "model")
        return f"{models}, {amount(holdings.size)}, in the cache {cache.folder}", failed


def _fetch(source: Source, folder: pathlib.Path) -> tuple[str, list[str]]:
    holdings = source.holdings()
    failed = [f"model '{name}' is not copied: {reason}" for name, reason in holdings.failed.items()]
    if _is_there(folder, holdings.digest):
        return f"{_summary(holdings, folder, folder)}: there already", failed
    if any((folder / name).exists() for name in holdings.failed):
        raise invalid(f"{'; '.join(failed)}; {folder} has it from before, and stays as it is")
    if failed and not holdings.models:
        raise invalid("; ".join(failed))
    aside = _beside(folder, "fetching")
    _remove(aside)
    try:
        _check_space(folder.parent, holdings.size)
        aside.mkdir()
        progress = Progress(models=holdings.models, size=holdings.size, say=_say)
        source.copy(aside, progress.advance)
        summary = _summary(holdings, aside, folder)
        present = contents.digest(contents.contents(aside))
        mark = {"source": source.location, "digest": holdings.digest, "present": present}
        (aside / _MARK).write_text(json.dumps(mark) + "\n")
        _put(aside, folder)
    finally:
        _remove(aside)
    return summary, failed


def _summary(holdings: Holdings, made: pathlib.Path, folder: pathlib.Path) -> str:
    files = sum(not entry.is_folder for entry in contents.contents(made))
    models = f"{counted(holdings.models, 'model')}, " if holdings.models else ""
    return f"{models}{counted(files, 'file')}, {amount(holdings.size)}, in {folder}"


@contextlib.contextmanager
def _alone(folder: pathlib.Path) -> collections.abc.Iterator[None]:
    """Holds the lock of a folder, so that one fetch runs at a time; the kernel releases the lock of a killed one."""
    with _beside(folder, "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another fetch is writing {folder}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _beside(folder: pathlib.Path, what: str) -> pathlib.Path:
    return folder.with_name(f".{folder.name}.{what}")


def _is_there(folder: pathlib.Path, wanted: str) -> bool:
    """Whether an earlier fetch copied the same files, and all of them still exist.

    Raises:
        InferenceError: there is something that no fetch made.
    """
    if not os.path.lexists(folder):
        return False
    if not folder.is_dir() or folder.is_symlink():
        raise invalid(f"--to={folder}: it exists and is not a folder; give another name")
    try:
        mark = json.loads((folder / _MARK).read_text())
    except (FileNotFoundError, ValueError):
        if any(folder.iterdir()):
            raise invalid(
                f"--to={folder}: there is something in this folder that naiad fetch did not bring; give a folder that does not exist yet"
            ) from None
        return False
    try:
        present = contents.digest(contents.contents(folder))
    except InferenceError:
        return False  # the files were changed: copy them again
    return isinstance(mark, dict) and (mark.get("digest"), mark.get("present")) == (wanted, present)


def _check_space(folder: pathlib.Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise invalid(
            f"--to: the models take {amount(size)}, and {folder} has room for {amount(free)}"
        )


def _put(made: pathlib.Path, folder: pathlib.Path) -> None:
    """Rename the new folder to its final name; the result of an earlier fetch is removed."""
    _sync(made)
    old = _beside(folder, "old")
    _remove(old)
    if (folder / _MARK).exists():
        folder.rename(old)
    made.rename(folder)
    _sync(folder.parent)
    _remove(old)


def _sync(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(folder: pathlib.Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _unwritable(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full; the models need more room"
    if error.errno == errno.EBUSY:
        return "this is where a volume is mounted; give a folder in it"
    where = f" ({error.filename})" if error.filename else ""
    return f"cannot be written: {error.strerror or error}{where}"


def _say(line: str) -> None:
    sys.stderr.write(f"naiad fetch: {line}\n")
    sys.stderr.flush()
