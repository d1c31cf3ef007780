"""Restricted APIs: which groups of calls require a header, and which header (rows 17.15, 17.16).

Pure: it compares header values; `options` reads the options. HTTP reads the header under its own name (row 17.16), gRPC
under a name with a prefix (`grpc/methods.py`). Without restrictions it costs nothing: the mapping is empty and is read once, when
the routes are made.
"""

import collections.abc
import enum
import hmac

import msgspec


class Category(enum.Enum):
    """A group of calls that can be restricted; the value is its name on the command line."""

    HEALTH = "health"
    METADATA = "metadata"
    INFERENCE = "inference"
    SHARED_MEMORY = "shared-memory"
    MODEL_CONFIG = "model-config"
    MODEL_REPOSITORY = "model-repository"
    STATISTICS = "statistics"
    TRACE = "trace"
    LOGGING = "logging"


class Restriction(msgspec.Struct, frozen=True, kw_only=True):
    """The header that a call of a restricted category needs: its name, as the administrator wrote it, and its exact value."""

    header: str
    value: str

    def admits(self, value: bytes | None) -> bool:
        """Whether the call is admitted with a header's value; None means that the call has no such header.

        Compared in constant time: the value is a secret.
        """
        return value is not None and hmac.compare_digest(value, self.value.encode())

    @property
    def refusal(self) -> str:
        """The message of a refused call (row 17.16)."""
        return (
            f"This API is restricted, expecting header '{self.header}': send it with the value that "
            "the administrator of this server chose"
        )


Restrictions = collections.abc.Mapping[Category, Restriction]


def restrictions(
    parsed: collections.abc.Mapping[str, tuple[str, str]],
) -> dict[Category, Restriction]:
    """The restrictions of the parsed options: category name to (header name, expected value).

    Raises:
        ValueError: a name that is not a category; the parser of options refuses those first (row 17.15).
    """
    return {
        Category(name): Restriction(header=header, value=value)
        for name, (header, value) in parsed.items()
    }
