"""The operator's reading of the server's options, held against the server's own parser: the same arguments are accepted and refused."""

import pytest

from naiad.options import parsing, special
from naiad.options.options import FLAGS
from naiad.options.usage import UsageError
from naiad_operator.api.rules import spec
from naiad_operator.api.rules.cel import matches
from naiad_operator.builders import server_args, server_flags

VALUES = (
    "", "0", "1", "-1", "true", "OFF", "yes", "1.5", "nan", "1e3", "words", "json", "none", "poll", "explicit", "high",
    "counter_latencies=true", "counter_latencies=1.5", "group,counter_latencies=off", "=x", "histogram_latencies=true", "summary_latencies=off", "99999999999999999999",
)  # fmt: skip
OWN_SYNTAX = frozenset(special.SPECIAL) - {
    "metrics-config",
    "model-control-mode",
    "strict-model-config",
}
"""Options whose values only the server checks; the operator accepts any."""


@pytest.fixture(autouse=True)
def one_option_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules over several options, such as the models that explicit control needs, are not what is compared here."""
    monkeypatch.setattr(parsing, "check_together", lambda options, **_: None)


def server_accepts(*words: str) -> bool:
    try:
        parsing.parse(["--model-repository=/m", *words])
    except UsageError:
        return False
    return True


def operator_accepts(*words: str) -> bool:
    arguments = server_args.read(["--model-repository=/m", *words])
    return not any(one.unknown or one.wrong for one in arguments)


@pytest.mark.parametrize("name", [name for name in FLAGS if name not in OWN_SYNTAX])
def test_both_accept_the_same_values(name: str) -> None:
    for value in VALUES:
        for words in ([f"--{name}={value}"], [f"--{name}", value]):
            assert operator_accepts(*words) == server_accepts(*words), words
    assert operator_accepts(f"--{name}") == server_accepts(f"--{name}")


def test_both_know_the_same_names_and_beginnings() -> None:
    for name in FLAGS:
        for word in (name[:length] for length in range(len(name) + 1)):
            full, unknown = server_args.find(word)
            try:
                assert parsing._find(word).name == full
            except UsageError:
                assert unknown, word
        assert server_args.find(f"{name}x")[1] or f"{name}x" in FLAGS


@pytest.mark.parametrize(
    "words",
    [
        ("serve",),
        ("log-verbose=1",),
        ("-log-verbose=1",),
        ("--log-verbose 1",),
        ("--log-verbose", "1", "--log-info", "off", "--log-warning", "--log-error=true"),
        ("--http-port",),
        ("--",),
        ("--http_port=1",),
    ],
)
def test_both_divide_words_alike(words: tuple[str, ...]) -> None:
    assert operator_accepts(*words) == server_accepts(*words)


def test_what_has_no_effect_is_known() -> None:
    for name, flag in FLAGS.items():
        assert server_flags.FLAGS[name].idle == flag.idle
        assert server_flags.FLAGS[name].missing == flag.missing


def test_the_rule_about_the_operators_options_knows_every_beginning_that_the_server_takes() -> None:
    beginnings = {name[:end] for name in server_flags.FLAGS for end in range(1, len(name) + 1)}
    owned = {one for one in beginnings if server_args.find(one)[0] in server_args.OWNED}
    assert {"http-po", "http-port", "exit-t"} <= owned
    ruled = {one for one in beginnings if matches(f"--{one}=1", spec.OWN_OPTIONS_PATTERN)}
    assert ruled == owned
