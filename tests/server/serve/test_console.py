"""What a person sees while models load, on a terminal and in a log."""

import io
import logging
import typing

import pytest
from rich.console import Console

from naiad.metrics.memory import MemoryUsage
from naiad.repository.lifecycle import State
from naiad.repository.manager import VersionState
from naiad.repository.plan import ModelPlan
from naiad.repository.requests.namespaces import NamespacedListener
from naiad.serve.console import Address, LoadingLines, exposure, show_addresses, show_models

STATES = [
    VersionState(name="good", version=1, state=State.READY, reason="", load_ns=250_000_000),
    VersionState(
        name="bad", version=None, state=State.UNAVAILABLE, reason="config.pbtxt:2:1: [oh]"
    ),
]


def terminal() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=120, force_terminal=False), text


def test_the_table_shows_each_state_and_why() -> None:
    console, text = terminal()
    show_models(console, STATES)
    assert "good" in text.getvalue()
    assert "UNAVAILABLE" in text.getvalue()
    assert "config.pbtxt:2:1: [oh]" in text.getvalue()


def test_without_a_terminal_the_table_is_one_log_record_with_fields_for_machines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "naiad"):
        show_models(None, STATES)
    (record,) = caplog.records
    assert record.getMessage() == "models:"
    fields = vars(record)
    assert fields["rows"][2] == "bad         -  UNAVAILABLE  see above"
    assert fields["models"] == [
        {"model": "good", "version": 1, "state": "READY", "reason": ""},
        {"model": "bad", "state": "UNAVAILABLE", "reason": "config.pbtxt:2:1: [oh]"},
    ]


def test_where_polls_try_again_a_load_that_fails_as_before_is_not_shown_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = LoadingLines(None, repeats=False)

    def attempt(outcome: State, reason: str = "") -> list[str]:
        caplog.clear()
        for state, why in ((State.LOADING, ""), (outcome, reason)):
            lines.changed(VersionState(name="m", version=1, state=state, reason=why))
        return [record.getMessage().partition(" in ")[0] for record in caplog.records]

    loading, failed = "loading: m:1", "failed to load 'm' version 1: {}".format
    with caplog.at_level(logging.INFO, "naiad"):
        assert attempt(State.UNAVAILABLE, "no memory") == [loading, failed("no memory")]
        assert attempt(State.UNAVAILABLE, "no memory") == []
        assert attempt(State.UNAVAILABLE, "no device") == [failed("no device")]
        assert attempt(State.READY) == ["successfully loaded 'm' version 1"]
        assert attempt(State.UNAVAILABLE, "no device") == [loading, failed("no device")]


HTTP = Address(
    title="HTTP",
    url="http://localhost:8000",
    service="HTTPService",
    bound="0.0.0.0:8000",
    exposure="all interfaces, no authentication",
)


def test_the_log_lists_the_addresses_as_the_reference_does_and_who_can_reach_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Triton's own line is the beginning: `Started HTTPService at 0.0.0.0:8000`."""
    with caplog.at_level(logging.INFO, "naiad"):
        show_addresses(
            None, [HTTP, Address(title="API docs", url="http://localhost:8000/docs")], example=""
        )
    assert [record.getMessage() for record in caplog.records] == [
        "Started HTTPService at 0.0.0.0:8000 (all interfaces, no authentication)"
    ]


def test_the_terminal_shows_an_address_to_click_on_and_who_can_reach_it() -> None:
    console, text = terminal()
    show_addresses(console, [HTTP], example="")
    shown = "  HTTP      http://localhost:8000  (all interfaces, no authentication)\n"
    assert text.getvalue() == shown


@pytest.mark.parametrize(
    ("host", "authenticated", "words"),
    [
        ("0.0.0.0", False, "all interfaces, no authentication"),
        ("::", False, "all interfaces, no authentication"),
        ("0.0.0.0", True, "all interfaces"),
        ("192.0.2.7", False, "no authentication"),
        ("192.0.2.7", True, ""),
        ("127.0.0.1", False, ""),
        ("::1", False, ""),
        ("localhost", False, ""),
    ],
)
def test_who_can_reach_a_socket(host: str, *, authenticated: bool, words: str) -> None:
    assert exposure(host, authenticated=authenticated) == words


def test_each_model_gets_one_line_when_it_is_done(caplog: pytest.LogCaptureFixture) -> None:
    lines = LoadingLines(None)
    with caplog.at_level(logging.INFO, "naiad"):
        for state in STATES:
            lines.changed(state)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith("successfully loaded 'good' version 1 in 0.25 s")
    assert messages[1] == "failed to load 'bad': config.pbtxt:2:1: [oh]"
    good, bad = map(vars, caplog.records)
    assert (good["model"], good["version"]) == ("good", 1)
    assert bad["model"] == "bad"
    assert "version" not in bad


def test_the_line_of_a_load_says_what_it_took_of_memory(caplog: pytest.LogCaptureFixture) -> None:
    memory = (
        MemoryUsage(type="CPU", id=0, byte_size=40_300_000, estimated=True),
        MemoryUsage(type="GPU", id=1, byte_size=812_000_000, estimated=False),
    )
    state = VersionState(name="m", version=1, state=State.READY, reason="", memory=memory)
    with caplog.at_level(logging.INFO, "naiad"):
        LoadingLines(None).changed(state)
    (record,) = caplog.records
    assert "in 0.00 s, about 40.3 MB, 812.0 MB of GPU 1" in record.getMessage()
    assert vars(record)["memory_usage"][0] == {
        "type": "CPU",
        "id": 0,
        "byte_size": 40_300_000,
        "estimated": True,
    }


def test_the_line_of_a_load_leaves_out_what_would_be_zero(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = (
        MemoryUsage(type="CPU", id=0, byte_size=50_000, estimated=False),
        MemoryUsage(type="GPU", id=0, byte_size=49_999, estimated=True),
    )
    state = VersionState(name="m", version=1, state=State.READY, reason="", memory=memory)
    with caplog.at_level(logging.INFO, "naiad"):
        LoadingLines(None).changed(state)
    (record,) = caplog.records
    assert "in 0.00 s, 0.1 MB (" in record.getMessage() + " ("
    assert "GPU" not in record.getMessage()
    assert len(vars(record)["memory_usage"]) == 2


def test_the_line_of_an_unload_says_what_it_freed_on_gpus_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = VersionState(
        name="m",
        version=1,
        state=State.UNAVAILABLE,
        reason="unloaded",
        resident=(300_000_000, 250_000_000),
        gpu_memory={0: (1_700_000_000, 700_000_000), 3: (5_000_000, 5_000_000)},
    )
    with caplog.at_level(logging.INFO, "naiad"):
        LoadingLines(None).changed(state)
    (message,) = caplog.messages
    assert message == (
        "successfully unloaded 'm' version 1: resident memory 300.0 MB -> 250.0 MB (-50.0 MB), "
        "GPU 0 1700.0 MB -> 700.0 MB (-1000.0 MB), GPU 3 5.0 MB -> 5.0 MB (+0.0 MB)"
    )


def test_the_log_of_a_failed_reload_mentions_that_the_old_version_goes_on_serving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    console, text = terminal()
    failed = VersionState(
        name="emojize", version=1, state=State.UNAVAILABLE, reason="no", replaces=True
    )
    LoadingLines(console).changed(failed)
    assert "emojize version 1 failed; what was loaded before goes on serving" in text.getvalue()
    message = "failed to load 'emojize' version 1; what was loaded before goes on serving: no"
    assert [record.getMessage() for record in caplog.records] == [message]


def test_the_log_counts_the_versions_of_the_start(caplog: pytest.LogCaptureFixture) -> None:
    lines = LoadingLines(None)
    versions: typing.Any = (None, None)
    with caplog.at_level(logging.INFO, "naiad"):
        lines.starting(["a", "b"])
        lines.planned(ModelPlan(name="a", versions=versions))
        for version in (1, 2):
            lines.changed(VersionState(name="a", version=version, state=State.READY, reason=""))
        lines.planned(ModelPlan(name="b", reason="no"))
    counts = [record.getMessage().rpartition(" (")[2] for record in caplog.records]
    assert counts == ["1 of 3)", "2 of 3)"]


def test_a_model_that_one_of_the_start_loads_is_not_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = LoadingLines(None)
    version: typing.Any = None
    progress = NamespacedListener(lines, "here")
    with caplog.at_level(logging.INFO, "naiad"):
        progress.starting(["a", "b"])
        for name in ("a", "other", "b", "b"):
            progress.planned(ModelPlan(name=name, versions=(version,)))
            progress.changed(VersionState(name=name, version=1, state=State.READY, reason=""))
    assert [record.getMessage().partition(" in 0.00 s")[::2] for record in caplog.records] == [
        ("successfully loaded 'here::a' version 1", " (1 of 2)"),
        ("successfully loaded 'here::other' version 1", ""),
        ("successfully loaded 'here::b' version 1", " (2 of 2)"),
        ("successfully loaded 'here::b' version 1", ""),
    ]


def test_after_a_failed_start_unloads_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    lines = LoadingLines(None)
    unloaded = VersionState(name="m", version=1, state=State.UNAVAILABLE, reason="unloaded")
    with caplog.at_level(logging.INFO, "naiad"):
        lines.changed(unloaded)
        lines.hide_unloads()
        lines.changed(unloaded)
    assert [record.getMessage() for record in caplog.records] == [
        "successfully unloaded 'm' version 1"
    ]
