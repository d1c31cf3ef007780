"""Restricted APIs: which groups of calls ask for a header, and for which one (rows 17.15, 17.16).

Pure: it compares header values; reading the options is `options`' work. HTTP looks for the header under its own name (row 17.16); how gRPC
spells it is gRPC's matter. Nobody pays for this when no category is restricted: the mapping is empty and is looked into once,
when routes are made.
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
    """What a call of a restricted category has to bring.

    Attributes:
        header: the header's name, as the administrator wrote it.
        value: what it must hold, exactly.
    """

    header: str
    value: str

    def admits(self, value: bytes | None) -> bool:
        """Whether a header's value opens the call; None means that the header did not come.

        Compared in constant time: the value is a secret.
        """
        return value is not None and hmac.compare_digest(value, self.value.encode())

    @property
    def refusal(self) -> str:
        """The message of a refused call (row 17.16)."""
        return (
            f"This API is restricted, expecting header '{self.header}': send it with the value that "
            "whoever runs this server was given"
        )


Restrictions = collections.abc.Mapping[Category, Restriction]


def restrictions(
    said: collections.abc.Mapping[str, tuple[str, str]],
) -> dict[Category, Restriction]:
    """What the options said, as they were parsed: category name to (header name, expected value).

    Raises:
        ValueError: a name that is no category; the parser of options refuses those first (row 17.15).
    """
    return {
        Category(name): Restriction(header=header, value=value)
        for name, (header, value) in said.items()
    }
