"""`--metrics-config KEY=VALUE`: which metrics are kept. What is missing is a line in the log: a metric is no reason not to serve."""

_TRUE_LATER = {
    "summary_latencies": "the families nv_inference_*_summary_us",
    "histogram_latencies": "the family nv_inference_first_response_histogram_ms",
}
_SETTINGS_LATER = {
    "summary_quantiles": "the summaries that it is about",
    "histogram_buckets": "the histograms that it is about",
}
COUNTERS = "counter_latencies"


def metrics_note(key: str, *, switched_on: bool) -> str:
    """What to log about a setting other than `counter_latencies`; "" if it asks for nothing that is missing."""
    if key in _TRUE_LATER:
        if not switched_on:
            return ""
        missing = f"{_TRUE_LATER[key]} are not supported yet"
    elif key in _SETTINGS_LATER:
        missing = f"{_SETTINGS_LATER[key]} are not supported yet"
    else:
        return f"--metrics-config: no setting is called {key}: it has no effect; counter_latencies is one"
    return f"--metrics-config {key}: {missing}: they are missing from the metrics; naiad_* histograms of the same times are always there"
