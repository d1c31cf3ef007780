"""The metrics that are not Triton's follow Prometheus's conventions for names, units and help texts."""

import pytest

from naiad.metrics import families
from naiad.metrics.families import Family
from tests.monitoring.files import operator_page

SERVER = [
    family
    for family in vars(families).values()
    if isinstance(family, Family) and family.name.startswith("naiad_")
]

NOT_BASE_UNITS = ("_ms", "_us", "_ns", "_secs", "_minutes", "_kb", "_mb", "_gb", "_kib", "_mib")


def operator_families() -> list[Family]:
    """The operator's families, from its page."""
    lines = [line.split(" ", 3) for line in operator_page().splitlines() if line.startswith("# ")]
    helps = {name: text for _, kind, name, text in lines if kind == "HELP"}
    types = {name: text for _, kind, name, text in lines if kind == "TYPE"}
    assert helps.keys() == types.keys()
    return [Family(name, helps[name], types[name]) for name in helps]  # type: ignore[arg-type]  # the page has nothing else


ALL = [*SERVER, *operator_families()]


def test_both_programs_have_metrics_of_their_own() -> None:
    assert len(SERVER) >= 8
    assert len(ALL) - len(SERVER) >= 8


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_names_units_and_help_are_as_prometheus_recommends(family: Family) -> None:
    assert (family.type == "counter") == family.name.endswith("_total")
    plain = family.name.removesuffix("_total")
    assert not plain.endswith(NOT_BASE_UNITS)
    assert not plain.endswith(("_count", "_sum", "_bucket", "_info")), "an ending with a meaning"
    assert family.help[:1].isupper()
    assert 15 < len(family.help) < 120
    if plain.endswith("_seconds") and family in SERVER:
        assert "in seconds" in family.help
