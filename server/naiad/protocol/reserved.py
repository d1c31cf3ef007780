"""Names of request parameters that are the protocol's own, so that no forwarded header or metadata key may bring one (row 1.18). Pure."""

PREFIX = "triton_"
"""Every name that begins with this is reserved too."""

_NAMES = frozenset(
    (
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "priority",
        "timeout",
        "headers",
        "binary_data_output",
    )
)


def is_reserved(name: str) -> bool:
    """Whether a name, in any case, is one of them."""
    lowered = name.lower()
    return lowered in _NAMES or lowered.startswith(PREFIX)
