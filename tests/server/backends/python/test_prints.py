"""What models in threads of the server print."""

import contextvars
import io
import logging
import sys
import threading
import types

import pytest

from naiad.backends.python.api import context
from naiad.backends.python.prints import Prints, listen


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def prints(
    stream: io.StringIO, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Prints:
    # Other tests may have left a model in this thread.
    monkeypatch.setattr(context, "current", contextvars.ContextVar("here", default=None))
    monkeypatch.setattr(context, "only", None)
    monkeypatch.setattr(context, "of_module", {})
    caplog.set_level(logging.INFO, "naiad")
    return Prints(stream)


def as_model(work: object, *, instance: str = "m_0_1") -> None:
    """Runs something as a model's code, in a context that ends with it."""
    assert callable(work)

    def run() -> None:
        context.current.set(context.Running(model="m", instance=instance, directory="/m/1"))
        work()

    contextvars.copy_context().run(run)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_lines_of_a_model_are_logged_when_they_are_complete(
    prints: Prints, stream: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        print("first", "li", end="", file=prints)
        assert said(caplog) == []
        print("ne\n\nsecond", file=prints)

    as_model(work)
    assert said(caplog) == ["[m m_0_1] first line", "[m m_0_1] second"]
    assert vars(caplog.records[0])["model"] == "m"
    assert vars(caplog.records[0])["instance"] == "m_0_1"
    assert not stream.getvalue()


def test_what_is_flushed_is_logged_though_its_line_goes_on(
    prints: Prints, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        for percent in (50, 100):
            print(f"\r{percent} %", end="", flush=True, file=prints)

    as_model(work)
    assert said(caplog) == ["[m m_0_1] 50 %", "[m m_0_1] 100 %"]


def test_a_line_without_an_end_is_not_kept_for_ever(
    prints: Prints, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        for _ in range(3):
            prints.write("x" * 50_000)

    as_model(work)
    assert said(caplog) == ["[m m_0_1] " + "x" * 100_000]


def test_while_a_config_is_completed_there_is_no_instance_yet(
    prints: Prints, caplog: pytest.LogCaptureFixture
) -> None:
    as_model(lambda: print("completing", file=prints), instance="")
    assert said(caplog) == ["[m config] completing"]


def test_other_output_goes_straight_on(
    prints: Prints, stream: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    print("the server speaks", file=prints)
    assert stream.getvalue() == "the server speaks\n"
    assert said(caplog) == []


def test_a_thread_that_a_model_starts_is_known_by_its_code(
    prints: Prints, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = context.Running(model="m", instance="m_0_1", directory="/m/1")
    monkeypatch.setitem(context.of_module, "naiad_model_m", [running])
    module = types.ModuleType("naiad_model_m.model")
    exec("def work(stream): print('beside', file=stream)", vars(module))
    thread = threading.Thread(target=module.work, args=(prints,))
    thread.start()
    thread.join()
    assert said(caplog) == ["[m m_0_1] beside"]


def test_what_is_written_under_a_debugger_stays_as_it_is(
    prints: Prints, stream: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        before = sys.gettrace()
        sys.settrace(lambda *_: None)
        try:
            print("(Pdb) ", end="", flush=True, file=prints)
        finally:
            sys.settrace(before)

    as_model(work)
    assert stream.getvalue() == "(Pdb) "
    assert said(caplog) == []


def test_a_handler_that_writes_there_does_not_recurse(prints: Prints, stream: io.StringIO) -> None:
    logger = logging.getLogger("naiad.models")
    handler = logging.StreamHandler(prints)
    logger.addHandler(handler)
    try:
        as_model(lambda: print("once", file=prints))
    finally:
        logger.removeHandler(handler)
    assert stream.getvalue() == "[m m_0_1] once\n"


def test_without_a_log_that_takes_it_a_print_is_a_print(
    prints: Prints, stream: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "naiad")
    as_model(lambda: print("seen", file=prints))
    assert stream.getvalue() == "seen\n"


def test_it_passes_for_the_stream_that_it_stands_for(prints: Prints, stream: io.StringIO) -> None:
    assert not prints.isatty()
    assert prints.writable()
    prints.close()
    prints.writelines(["open ", "still\n"])
    assert prints.getvalue() == stream.getvalue() == "open still\n"
    with pytest.raises(TypeError, match="bytes"):
        as_model(lambda: prints.write(b"no text"))  # type: ignore[arg-type]  # what a model may do


def test_the_two_streams_are_replaced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    listen()
    replaced = sys.stdout
    assert isinstance(replaced, Prints)
    listen()
    assert sys.stdout is replaced
    assert sys.stderr is None
