"""The base class of all parts of the resource: frozen, camelCase in manifests, unknown fields rejected."""

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the resource. The `Attributes:` of its docstring become the descriptions in the CRD and in the docs."""
