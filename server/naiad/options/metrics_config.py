"""`--metrics-config KEY=VALUE` (row 17.5): which metrics are kept. A setting that is not known is a line in the log: a metric is no reason not to serve."""

SWITCHES = ("counter_latencies", "histogram_latencies", "summary_latencies", "exemplars")
"""The settings that are true or false."""
QUANTILES = "summary_quantiles"


def unknown_setting(key: str) -> str:
    """What to log about a setting that does not exist."""
    return f"--metrics-config: no setting is called {key}: it has no effect; there are {', '.join(SWITCHES)} and {QUANTILES}"


def quantiles(text: str) -> tuple[tuple[float, float], ...]:
    """Quantiles and their errors as the reference writes them: `0.5:0.05,0.9:0.01`. One that is given twice is one series, with the later error.

    Raises:
        ValueError: a pair is not that, or a number is not between 0 and 1.
    """
    found: dict[float, float] = {}
    for pair in text.split(","):
        quantile, _, error = pair.partition(":")
        try:
            numbers = float(quantile), float(error)
        except ValueError:
            numbers = (-1.0, -1.0)
        if not all(0 <= number <= 1 for number in numbers):
            raise ValueError(
                f"expected QUANTILE:ERROR, both from 0 to 1, separated by commas, e.g. 0.5:0.05,0.99:0.001; '{pair}' is not that"
            )
        found[numbers[0]] = numbers[1]
    return tuple(sorted(found.items()))
