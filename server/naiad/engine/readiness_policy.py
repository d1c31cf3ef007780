"""The value of `--readiness-policy`: which models must be ready for the server to be ready."""

import typing

import msgspec


class ReadinessPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which models must be ready for the server to be ready.

    Attributes:
        rule: "all": every model, as in Triton. "any": at least one. "models": those in `models`.
        models: names.
    """

    rule: typing.Literal["all", "any", "models"] = "all"
    models: tuple[str, ...] = ()
