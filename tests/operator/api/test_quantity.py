"""Amounts in the form in which the API server stores them."""

import pytest

from naiad_operator.api import quantity


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (2, "2"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1024Mi", "1Gi"),
        ("2048Mi", "2Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1500Mi", "1500Mi"),
        (1000, "1k"),
        ("1000k", "1M"),
        ("5000", "5k"),
        (1024, "1024"),
        ("0", "0"),
        ("0Gi", "0"),
        ("2G", "2G"),
        ("1e3", "1k"),
        ("1Ei", "1Ei"),
        ("1000P", "1E"),
        ("not-an-amount", "not-an-amount"),
    ],
)
def test_an_amount_is_written_as_it_is_stored(written: int | str, stored: str) -> None:
    assert quantity.canonical(written) == stored
    assert quantity.canonical(stored) == stored
