"""Metrics that models make themselves (rows 8.34, 15.26)."""

import pytest

from naiad.metrics.custom import CustomMetrics
from naiad.metrics.exposition import page


def shown(metrics: CustomMetrics) -> list[str]:
    return page(metrics.series()).decode().splitlines()


def test_a_counter_is_shown_while_its_family_is_held() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "What it counts", "counter")
    metric = metrics.open_metric(family, {"b": "2", "a": "1"}, None)
    metrics.change(metric, "increment", 2.5)
    assert metrics.value(metric) == 2.5
    assert shown(metrics) == [
        "# HELP mine What it counts",
        "# TYPE mine counter",
        'mine{a="1",b="2"} 2.5',
    ]
    metrics.close_family(family)
    metrics.close_family(family)
    assert shown(metrics) == []


def test_families_of_one_name_are_one_and_go_with_the_last_holder() -> None:
    metrics = CustomMetrics()
    first = metrics.open_family("mine", "First", "counter")
    second = metrics.open_family("mine", "Second", "counter")
    one = metrics.open_metric(first, {"x": "y"}, None)
    same = metrics.open_metric(second, {"x": "y"}, None)
    metrics.open_metric(second, {"only": "second"}, None)
    metrics.change(one, "increment", 1)
    metrics.change(same, "increment", 2)
    assert metrics.value(one) == metrics.value(same) == 3
    metrics.close_family(second)
    assert shown(metrics) == ["# HELP mine First", "# TYPE mine counter", 'mine{x="y"} 3']
    assert metrics.value(one) == 3
    with pytest.raises(ValueError, match="corresponding 'MetricFamily' has been deleted"):
        metrics.value(same)
    with pytest.raises(ValueError, match="corresponding 'MetricFamily' has been deleted"):
        metrics.open_metric(second, {}, None)


def test_a_metric_that_is_made_again_for_each_request_is_held_once() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "What it counts", "counter")
    made = [metrics.open_metric(family, {"x": "y"}, None) for _ in range(1000)]
    for each in made:
        metrics.change(each, "increment", 1)
    assert shown(metrics)[-1] == 'mine{x="y"} 1000'
    assert len(set(made)) == 1, "each number is memory that stays for as long as the family"
    metrics.close_family(family)
    assert shown(metrics) == []


def test_a_new_family_of_an_old_name_starts_at_zero() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "Old", "counter")
    metrics.change(metrics.open_metric(family, {}, None), "increment", 5)
    metrics.close_family(family)
    family = metrics.open_family("mine", "New", "gauge")
    assert metrics.value(metrics.open_metric(family, {}, None)) == 0


def test_a_gauge_is_set_and_moved_both_ways() -> None:
    metrics = CustomMetrics()
    metric = metrics.open_metric(metrics.open_family("mine", "Level", "gauge"), {}, None)
    metrics.change(metric, "set", 3)
    metrics.change(metric, "increment", -5)
    assert metrics.value(metric) == -2


def test_a_histogram_counts_by_upper_bound() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "Spread", "histogram")
    metric = metrics.open_metric(family, {"x": "y"}, [0.1, 1.0])
    for value in (0.05, 0.1, 0.5, 100):
        metrics.change(metric, "observe", value)
    assert shown(metrics)[2:] == [
        'mine_bucket{x="y",le="0.1"} 2',
        'mine_bucket{x="y",le="1"} 3',
        'mine_bucket{x="y",le="+Inf"} 4',
        'mine_sum{x="y"} 100.65',
        'mine_count{x="y"} 4',
    ]


@pytest.mark.parametrize(
    ("kind", "operation", "value", "says"),
    [
        ("counter", "increment", -1, "can only be incremented monotonically by non-negative"),
        ("counter", "increment", float("nan"), "can only be incremented monotonically"),
        ("counter", "set", 1, "TRITONSERVER_METRIC_KIND_COUNTER does not support Set"),
        ("counter", "observe", 1, "TRITONSERVER_METRIC_KIND_COUNTER does not support Observe"),
        ("gauge", "observe", 1, "TRITONSERVER_METRIC_KIND_GAUGE does not support Observe"),
        ("histogram", "increment", 1, "METRIC_KIND_HISTOGRAM does not support Increment"),
        ("histogram", "set", 1, "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Set"),
    ],
)
def test_a_metric_refuses_operations_that_its_kind_does_not_support(
    kind: str, operation: str, value: float, says: str
) -> None:
    metrics = CustomMetrics()
    buckets = [1.0] if kind == "histogram" else None
    metric = metrics.open_metric(metrics.open_family("mine", "", kind), {}, buckets)
    with pytest.raises(ValueError, match=says):
        metrics.change(metric, operation, value)


def test_a_histogram_has_no_one_value() -> None:
    metrics = CustomMetrics()
    metric = metrics.open_metric(metrics.open_family("mine", "", "histogram"), {}, [1.0])
    with pytest.raises(ValueError, match="does not support Value"):
        metrics.value(metric)


def test_a_name_has_one_kind_and_is_not_the_servers() -> None:
    metrics = CustomMetrics()
    metrics.open_family("mine", "", "counter")
    with pytest.raises(ValueError, match="already exists with different type: 'mine' is a counter"):
        metrics.open_family("mine", "", "gauge")
    with pytest.raises(ValueError, match="is one of the server's own"):
        metrics.open_family("nv_inference_count", "", "counter")


def test_labels_are_text_and_buckets_ascend() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "", "histogram")
    with pytest.raises(ValueError, match="metric labels are text: 'a' is 1"):
        metrics.open_metric(family, {"a": 1}, [1.0])  # type: ignore[dict-item] # what a model may do
    with pytest.raises(ValueError, match=r"strictly sorted: \[2.0, 1.0\] do not ascend"):
        metrics.open_metric(family, {}, [2.0, 1.0])


def test_names_and_texts_cannot_break_the_page() -> None:
    metrics = CustomMetrics()
    for name in ("", "1st", "a b", "a\nb", "a-b"):
        with pytest.raises(ValueError, match="is not a valid metric name"):
            metrics.open_family(name, "", "counter")
    family = metrics.open_family("a:b", "one\ntwo \\ three", "counter")
    for name in ("", "1st", "a b", "a:b"):
        with pytest.raises(ValueError, match="is not a valid label name"):
            metrics.open_metric(family, {name: "x"}, None)
    metrics.open_metric(family, {"x": 'say "hello"\n'}, None)
    assert shown(metrics) == [
        r"# HELP a:b one\ntwo \\ three",
        "# TYPE a:b counter",
        r'a:b{x="say \"hello\"\n"} 0',
    ]


def test_text_that_cannot_be_written_is_refused_and_the_page_stays_whole() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "", "gauge")
    with pytest.raises(ValueError, match="label 'file' is not valid text"):
        metrics.open_metric(family, {"file": "\udcff"}, None)
    with pytest.raises(ValueError, match="description is not valid text"):
        metrics.open_family("other", "\udcff", "gauge")
    metrics.open_metric(family, {"file": "é"}, None)
    assert shown(metrics)[-1] == 'mine{file="é"} 0'


def test_a_bucket_of_infinity_is_there_once() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "", "histogram")
    metric = metrics.open_metric(family, {}, [1.0, float("inf")])
    metrics.change(metric, "observe", 3)
    assert shown(metrics)[2:] == [
        'mine_bucket{le="1"} 0',
        'mine_bucket{le="+Inf"} 1',
        "mine_sum 3",
        "mine_count 1",
    ]


@pytest.mark.parametrize("buckets", [[float("nan")], [1.0, float("nan")], [float("-inf"), 1.0]])
def test_buckets_are_numbers(buckets: list[float]) -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "", "histogram")
    with pytest.raises(ValueError, match="strictly sorted"):
        metrics.open_metric(family, {}, buckets)


def test_labels_that_begin_with_two_underscores_are_prometheuss_own() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "", "gauge")
    with pytest.raises(ValueError, match="'__mine' is not a valid label name"):
        metrics.open_metric(family, {"__mine": "1"}, None)
    metrics.open_metric(family, {"_mine": "1"}, None)


def test_a_histogram_has_no_label_of_its_buckets_name() -> None:
    metrics = CustomMetrics()
    family = metrics.open_family("mine", "", "histogram")
    with pytest.raises(ValueError, match="'le' is the label of a histogram's buckets"):
        metrics.open_metric(family, {"le": "1"}, [1.0])
