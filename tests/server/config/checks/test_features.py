"""What is not supported yet is refused at its line, and only when it is really asked for; what is switched off is served with a note."""

import pathlib

import pytest

from naiad.config.checks.features import NO_EFFECT, ServerFeatures
from naiad.config.histograms import HISTOGRAMS
from naiad.metrics import families
from tests.server.config.model_folders import make_model, only, resolve


@pytest.mark.parametrize(
    "config",
    [
        "instance_group { passive: false rate_limiter {} }",
        'input { name: "x" data_type: TYPE_FP32 dims: 1 allow_ragged_batch: false }',
        'model_repository_agents { agents { name: "checksum" } }',
        "model_transaction_policy { decoupled: true }",
        'runtime: "libtriton_python.so"',
        'parameters { key: "ANYTHING" value { string_value: "x" } }',
    ],
)
def test_a_field_that_changes_nothing_is_accepted(tmp_path: pathlib.Path, config: str) -> None:
    assert resolve(make_model(tmp_path, f'backend: "python" {config}')).problems == ()


def test_a_decoupled_model_loads_as_one(tmp_path: pathlib.Path) -> None:
    text = 'backend: "python" model_transaction_policy { decoupled: true }'
    config = resolve(make_model(tmp_path, text)).config
    assert config is not None
    assert config.decoupled


def test_another_runtime_is_refused(tmp_path: pathlib.Path) -> None:
    problem = only(resolve(make_model(tmp_path, 'backend: "python" runtime: "mine.so"')))
    assert (
        problem.message == "runtime 'mine.so' is not supported yet: another runtime for a backend"
    )


WITHOUT_EFFECT = {
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
}
ELSEWHERE = [
    'cc_model_filenames [ { key: "7.5" value: "model75.plan" } ]',
    'model_warmup [ { name: "a" } ]',
]


def test_everything_without_effect_is_shown_here() -> None:
    assert WITHOUT_EFFECT.keys() == NO_EFFECT.keys()


TENSOR = 'input { name: "x" data_type: TYPE_FP32 dims: 1 }'


@pytest.mark.parametrize("text", [*WITHOUT_EFFECT.values(), *ELSEWHERE])
def test_it_is_served_and_noted(tmp_path: pathlib.Path, text: str) -> None:
    resolution = resolve(make_model(tmp_path, f'backend: "python" {TENSOR} {text}'))
    assert resolution.problems == ()
    (note,) = resolution.notes
    assert note.startswith(text.split(maxsplit=1)[0])
    assert " has no effect: " in note


@pytest.mark.parametrize("groups", ["[ { passive: true } ]", "[ { passive: true }, { passive: true } ]"])  # fmt: skip
def test_a_model_of_passive_instances_only_is_refused(tmp_path: pathlib.Path, groups: str) -> None:
    problem = only(resolve(make_model(tmp_path, f'backend: "python"\ninstance_group {groups}')))
    assert problem.position is not None
    assert problem.position.line == 2
    assert "is passive: no instance would run its requests" in problem.message


def test_a_passive_group_beside_others_is_served(tmp_path: pathlib.Path) -> None:
    text = 'backend: "python" instance_group [ { passive: true }, { count: 1 } ]'
    assert resolve(make_model(tmp_path, text)).problems == ()


def test_a_host_policy_that_the_server_does_not_define_is_refused(tmp_path: pathlib.Path) -> None:
    folder = make_model(
        tmp_path, f'backend: "python" {TENSOR}\ninstance_group {{ host_policy: "fats" }}'
    )
    features = ServerFeatures(host_policies=frozenset({"fast", "slow"}))
    problem = only(resolve(folder, features=features))
    assert "has host policy 'fats', and the server defines fast, slow" in problem.message
    known = ServerFeatures(host_policies=frozenset({"fats"}))
    found = resolve(folder, features=known)
    assert (found.problems, found.notes) == ((), ())


def test_resources_are_not_noted_while_the_rate_limiter_grants_them(tmp_path: pathlib.Path) -> None:
    text = 'instance_group { rate_limiter { resources [ { name: "r" } ] priority: 2 } }'
    folder = make_model(tmp_path, f'backend: "python" {TENSOR} {text}')
    assert resolve(folder, features=ServerFeatures(rate_limiter=True)).notes == ()


@pytest.mark.parametrize("text", ["response_cache { enable: false }", "response_cache {}"])
def test_a_field_that_asks_for_nothing_is_not_noted(tmp_path: pathlib.Path, text: str) -> None:
    resolution = resolve(make_model(tmp_path, f'backend: "python" {TENSOR} {text}'))
    assert (resolution.problems, resolution.notes) == ((), ())


def test_a_response_cache_of_a_decoupled_model_is_refused(tmp_path: pathlib.Path) -> None:
    text = 'backend: "python" model_transaction_policy { decoupled: true } response_cache { enable: true }'
    problem = only(resolve(make_model(tmp_path, text)))
    assert "Response Cache does not currently support model" in problem.message


def test_a_metric_without_buckets_is_refused(tmp_path: pathlib.Path) -> None:
    text = (
        'backend: "python" model_metrics { metric_control { metric_identifier { family: "f" } } }'
    )
    assert "non-empty 'buckets'" in only(resolve(make_model(tmp_path, text))).message


def of_family(family: str, buckets: str) -> str:
    """A config that chooses the buckets of a histogram."""
    control = (
        f'metric_identifier {{ family: "{family}" }} histogram_options {{ buckets: {buckets} }}'
    )
    return f'backend: "python" {TENSOR} model_metrics {{ metric_control {{ {control} }} }}'


@pytest.mark.parametrize("buckets", ["[2, 1]", "[1, 1]", "[nan]", "[1, nan, 2]"])
def test_buckets_that_do_not_ascend_are_refused(tmp_path: pathlib.Path, buckets: str) -> None:
    problem = only(resolve(make_model(tmp_path, of_family("naiad_batch_size", buckets))))
    assert "buckets of 'naiad_batch_size' must be numbers in ascending order" in problem.message


@pytest.mark.parametrize(
    ("family", "on", "note"),
    [
        ("naiad_request_duration_seconds", False, ""),
        ("nv_inference_first_response_histogram_ms", True, ""),
        ("nv_inference_first_response_histogram_ms", False, "the histogram that it describes is off"),
        ("nv_inference_queue_summary_us", True, "not one of the histograms whose buckets can be chosen: nv_"),
    ],
)  # fmt: skip
def test_buckets_of_a_histogram_that_is_not_there_are_noted(
    tmp_path: pathlib.Path, family: str, *, on: bool, note: str
) -> None:
    folder = make_model(tmp_path, of_family(family, "[1, 2, inf]"))
    found = resolve(folder, features=ServerFeatures(first_response_histogram=on))
    assert found.problems == ()
    assert [note in each for each in found.notes] == ([True] if note else [])
    if not note:
        assert found.config is not None
        assert found.config.histogram_buckets == {family: (1.0, 2.0)}


def test_the_histograms_whose_buckets_can_be_chosen_exist() -> None:
    known = {
        each.name: each.type
        for each in vars(families).values()
        if isinstance(each, families.Family)
    }
    assert {known[name] for name in HISTOGRAMS} == {"histogram"}


def test_a_response_cache_of_sequences_is_refused(tmp_path: pathlib.Path) -> None:
    text = 'backend: "python" sequence_batching {} response_cache { enable: true }'
    found = resolve(make_model(tmp_path, text)).problems
    assert any("with sequence batching scheduler" in problem.message for problem in found)


def test_a_server_with_a_cache_has_no_note_of_it(tmp_path: pathlib.Path) -> None:
    text = f'backend: "python" {TENSOR} response_cache {{ enable: true }}'
    found = resolve(make_model(tmp_path, text), features=ServerFeatures(response_cache=True))
    assert found.config is not None
    assert found.config.response_cache
    assert found.notes == ()
