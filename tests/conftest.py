"""Settings of all tests: the groups of a parallel run, the report of the conformance run, how much hypothesis tries, what costs each process of a run time."""

import gc
import itertools
import os
import pathlib
import re
import signal
import sys
import typing
from collections.abc import Generator

import hypothesis
import pytest

from tests import parallel, parallel_reports
from tests.conformance.comparison.report import ConformanceReport
from tests.reference.forking import FORKING

# A run starts hundreds of interpreters. Where the environment forbids bytecode, each of them would compile everything again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Of the start of a process with numpy, a sixth goes into threads of OpenBLAS that wait for work, busily, and get none.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell without job control starts background jobs with SIGINT ignored, and the servers that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So does nohup with SIGHUP, at which a server would not stop then.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No deadline for one example, nor for making some: a busy machine is not a fault of the code.
_PATIENT = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("full", _PATIENT, max_examples=1000)
hypothesis.settings.register_profile("small", _PATIENT, max_examples=30)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "small"))


_FOLDERS = itertools.count()


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """As pytest's, which reads the names of all folders before it for each: there are thousands."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(_FOLDERS)}"
    folder.mkdir(mode=0o700)
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """The report is made where the summary is printed, which in a parallel run collects no tests itself."""
    config.pluginmanager.register(ConformanceReport())
    FORKING.switch_on()
    if parallel.is_worker(config):
        parallel.spread_collection(config)
        parallel_reports.send_less(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: typing.Any) -> None:
    """Of pytest-xdist, before it starts one of the processes that share the tests."""
    parallel.announce_builds(node.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: typing.Any) -> object:
    """Of pytest-xdist, in the process that hands out the tests."""
    return parallel_reports.Groups(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes stays until the end: the garbage collector looks at none of it, neither meanwhile nor in the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """The garbage collector leaves out what lives on after a file, as reports and caches do: many tests of the next ones let it look at everything."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Groups the tests where several processes share them."""
    if parallel.is_worker(config):
        missing = parallel.are_programs_missing(config)
        parallel.arrange(items, programs_missing=missing)
        if missing and not config.option.collectonly:
            builder = parallel.start_builder(items)
            if builder is not None:
                config.add_cleanup(builder.terminate)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, typing.Any, typing.Any]:
    """What is not Unicode in a report would end a run in several processes, and much of it is read of failures only."""
    return parallel_reports.sendable(parallel_reports.without_keywords((yield)))
