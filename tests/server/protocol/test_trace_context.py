"""Which `traceparent` headers name a trace."""

import pytest

from naiad.protocol.trace_context import trace_id_of

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize("version", ["00", "01", "cc"])
def test_the_trace_id_is_found(version: str) -> None:
    text = f"{version}-{TRACE_ID}-{SPAN_ID}-01"
    assert trace_id_of(text) == trace_id_of(text.encode()) == TRACE_ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{TRACE_ID.upper()}-{SPAN_ID}-01",
        f"00-{TRACE_ID[:-1]}-{SPAN_ID}-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-01\n",
        f"00-{TRACE_ID}-{SPAN_ID}",
        f"00-{TRACE_ID[:-1]}\u0663-{SPAN_ID}-01",
    ],
)
def test_an_invalid_header_is_ignored(text: str) -> None:
    assert trace_id_of(text) == ""
    assert trace_id_of(text.encode()) == ""
