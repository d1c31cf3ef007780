"""What is switched off on this server is served, and a note says that it has no effect."""

import pathlib

import pytest

from naiad.config.checks.no_effect import ACCEPTED
from tests.server.config.model_folders import make_model, only, resolve

ASKED = {
    ("response_cache", "enable"): "response_cache { enable: true }",
    ("instance_group", "*", "rate_limiter", "resources"): (
        'instance_group { rate_limiter { resources [ { name: "r" } ] } }'
    ),
    ("instance_group", "*", "rate_limiter", "priority"): (
        "instance_group [ { rate_limiter { priority: 2 } } ]"
    ),
    ("instance_group", "*", "host_policy"): 'instance_group { host_policy: "p" }',
    ("instance_group", "*", "secondary_devices"): (
        "instance_group { secondary_devices { device_id: 1 } }"
    ),
    ("model_metrics", "metric_control"): (
        'model_metrics { metric_control { metric_identifier { family: "f" } histogram_options { buckets: 1 } } }'
    ),
}
ELSEWHERE = [
    'cc_model_filenames [ { key: "7.5" value: "model75.plan" } ]',
    'model_warmup [ { name: "a" } ]',
]


def test_everything_of_the_table_is_shown_here() -> None:
    assert ASKED.keys() == {each.path for each in ACCEPTED}


@pytest.mark.parametrize("text", [*ASKED.values(), *ELSEWHERE])
def test_it_is_served_and_noted(tmp_path: pathlib.Path, text: str) -> None:
    found = resolve(make_model(tmp_path, f'backend: "python" {text}'))
    assert found.problems == ()
    (note,) = found.notes
    assert note.startswith(text.split(maxsplit=1)[0])
    assert " has no effect: " in note


@pytest.mark.parametrize("text", ["response_cache { enable: false }", "response_cache {}"])
def test_a_field_that_asks_for_nothing_is_not_noted(tmp_path: pathlib.Path, text: str) -> None:
    found = resolve(make_model(tmp_path, f'backend: "python" {text}'))
    assert (found.problems, found.notes) == ((), ())


def test_a_response_cache_of_a_decoupled_model_is_refused(tmp_path: pathlib.Path) -> None:
    text = 'backend: "python" model_transaction_policy { decoupled: true } response_cache { enable: true }'
    problem = only(resolve(make_model(tmp_path, text)))
    assert "Response Cache does not currently support model" in problem.message


def test_a_metric_without_buckets_is_refused(tmp_path: pathlib.Path) -> None:
    text = (
        'backend: "python" model_metrics { metric_control { metric_identifier { family: "f" } } }'
    )
    assert "non-empty 'buckets'" in only(resolve(make_model(tmp_path, text))).message
