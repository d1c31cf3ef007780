"""Options of `naiad-operator run`: a flag wins over a variable, a variable over the default."""

import argparse
import pathlib
from collections.abc import Mapping

import pytest

from naiad_operator import options
from naiad_operator.options import Options


def read(*argv: str, environ: Mapping[str, str] | None = None) -> Options:
    parser = argparse.ArgumentParser()
    options.add_to(parser, environ or {})
    return options.read(parser, parser.parse_args(argv))


def test_the_defaults_watch_everywhere_without_a_lease() -> None:
    chosen = read()
    assert chosen.namespaces == ()
    assert not chosen.leader_election
    assert chosen.inspect_nodes


def test_each_flag_can_be_a_variable() -> None:
    chosen = read(
        environ={
            "NAIAD_WATCH_NAMESPACES": "a, b,",
            "NAIAD_LEADER_ELECTION": "true",
            "NAIAD_DEFAULT_IMAGE": "registry.example.com/naiad:2",
            "NAIAD_LOG_FORMAT": "text",
        }
    )
    assert chosen.namespaces == ("a", "b")
    assert chosen.leader_election
    assert chosen.defaults.image == "registry.example.com/naiad:2"
    assert chosen.log_text


def test_upgrades_are_ordered_and_held_by_namespace() -> None:
    chosen = read("--upgrade-order=staging, *,payments", "--upgrade-pause=a", "--upgrade-skip=*")
    expected = options.Upgrades(order=("staging", "*", "payments"), pause=("a",), skip=("*",))
    assert (chosen.upgrades, expected.time_limit_seconds) == (expected, 1800)


def test_a_flag_wins_over_a_variable() -> None:
    assert read("--workers=3", environ={"NAIAD_WORKERS": "5"}).workers == 3


@pytest.mark.parametrize(
    ("argv", "environ", "message"),
    [
        (["--workers=many"], {}, "--workers: 'many' is not an integer from 1 to 256"),
        (
            ["--default-requests=cpu=lots"],
            {},
            "--default-requests: 'cpu=lots': 'lots' is not an amount such as 100m, 2 or 256Mi",
        ),
        (["--workers=2.5"], {}, "--workers: '2.5' is not an integer from 1 to 256"),
        (
            ["--watch-namespaces=team-a,Team_B"],
            {},
            "--watch-namespaces: 'Team_B' is not a valid namespace name",
        ),
        (["--lease-name=A b"], {}, "--lease-name: 'A b' is not a valid object name"),
        (["--watch-namespaces=*"], {}, "--watch-namespaces: '*' is not a valid namespace name"),
        (["--http-port=70000"], {}, "--http-port: '70000' is not a number from 0 to 65535"),
        (["--upgrade-order=a,B"], {}, "--upgrade-order: 'B' is not a valid namespace name, or *"),
        (["--upgrade-time-limit-seconds=-1"], {}, "--upgrade-time-limit-seconds: '-1' is not a"),
        ([], {"NAIAD_LOG_LEVEL": "loud"}, "NAIAD_LOG_LEVEL: 'loud' is not one of debug"),
        (["--watch-namespaces=,"], {}, "--watch-namespaces: ',' names no namespace"),
        (["--default-profile=/none"], {}, "--default-profile: /none: cannot be read: "),
        (["--leader-election=yes"], {}, "invalid choice: 'yes'"),
    ],
)
def test_an_invalid_option_is_rejected_with_the_valid_values(
    argv: list[str], environ: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read(*argv, environ=environ)
    assert message in capsys.readouterr().err


def test_the_default_profile_is_read_from_a_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text("resources: {requests: {cpu: 1}}")
    profile = read(f"--default-profile={file}").default_profile
    assert profile is not None
    assert profile.values["resources"] == {"requests": {"cpu": 1}}
    assert read().default_profile is None
