"""The command `naiad-operator report`: the file, and what is printed."""

import argparse
import asyncio
import collections.abc
import contextlib
import datetime as dt
import os
import pathlib
import sys
import typing

from naiad_operator.cluster import client, credentials, errors, session
from naiad_operator.report import collector, layout
from naiad_operator.versions import OWN

_REQUEST_S = 15.0
_CONNECT_S = 5.0
_MANAGER = "naiad-operator"
_SHOWN_MISSING = 10


def run(options: argparse.Namespace) -> int:
    """Makes a report.

    Returns:
        The exit status: 0 when there is an archive, though some things may be missing in it, else 1.
    """
    now = dt.datetime.now(dt.UTC)
    path = options.output or f"naiad-report-{now:%Y%m%d-%H%M%S}.tar.gz"
    try:
        with _written(path) as file:
            _write(options, file, path, now)
    except (credentials.CredentialsError, errors.ApiError, OSError) as error:
        _say(f"naiad-operator: {_why(error, path)}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _why(error: Exception, path: str) -> str:
    """The error in words; of the archive's own file with what to do."""
    if isinstance(error, OSError) and error.filename == path:
        return f"cannot write {path}: {error.strerror}: choose another file with --output"
    return str(error)


def _write(options: argparse.Namespace, file: typing.BinaryIO, path: str, now: dt.datetime) -> None:
    collected = asyncio.run(_collect(options))
    files = layout.files(collected, own_version=str(OWN), time=f"{now:%Y-%m-%dT%H:%M:%SZ}")
    folder = f"naiad-report-{now:%Y%m%d-%H%M%S}"
    content = layout.archive(files, folder=folder, seconds=int(now.timestamp()))
    file.write(content)
    _say_end(path, files, len(content), collected)


async def _collect(options: argparse.Namespace) -> collector.Collected:
    access = await credentials.find(kubeconfig=options.kubeconfig, context=options.context)
    namespace = options.namespace or access.endpoint.namespace
    request = collector.Request(
        namespace="" if options.all_namespaces else namespace,
        service=options.service,
        operator_namespace=options.operator_namespace,
        log_lines=options.log_lines,
        pods=options.max_pods,
    )
    return await read(access, request)


async def read(
    access: credentials.Credentials, request: collector.Request, say: collector.Say | None = None
) -> collector.Collected:
    """Reads a report from an API server; progress goes to standard error by default.

    Raises:
        ApiError: the API server does not accept the credentials, or does not respond.
    """
    api = client.Client(
        session.open_session(access, agent="naiad-operator/report"),
        server=access.endpoint.server,
        manager=_MANAGER,
        timeouts=client.Timeouts(connect=_CONNECT_S, request=_REQUEST_S),
    )
    try:
        return await collector.collect(api, request, say or _say)
    finally:
        await api.close()


@contextlib.contextmanager
def _written(path: str) -> collections.abc.Iterator[typing.BinaryIO]:
    """The file to write, which only its owner may read. It is opened first, because reading takes a while, and removed after an error."""
    if path == "-":
        yield sys.stdout.buffer
        return
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        try:
            yield file
        except BaseException:
            pathlib.Path(path).unlink(missing_ok=True)
            raise


def _say_end(path: str, files: dict[str, str], size: int, collected: collector.Collected) -> None:
    missing = collected.missing
    for line in missing[:_SHOWN_MISSING]:
        _say(f"not collected: {line}")
    if len(missing) > _SHOWN_MISSING:
        _say(f"not collected: {len(missing) - _SHOWN_MISSING} more, see {layout.MISSING}")
    where = "standard output" if path == "-" else str(pathlib.Path(path).absolute())
    _say(f"{where}: {len(files)} files, {max(1, size // 1024)} KiB; begin with {layout.SUMMARY}")
    _say("Credentials are masked as far as they can be recognised. Names, addresses and what your models log stay: look through it before you share it.")  # fmt: skip


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
