"""Discovers which later fields the routes of a cluster have, from the schemas that the API server publishes to every client.

A route with a field that its CustomResourceDefinition lacks is refused, and a mirror without its share would copy every request.
"""

import collections.abc
import logging

import msgspec

from naiad_operator.api.manifests.unvalidated import Fields, entries, part
from naiad_operator.builders import kinds
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client

_log = logging.getLogger(__name__)

_ROUTES = (kinds.HTTP_ROUTE, kinds.GRPC_ROUTE)
_INDEX = "/openapi/v3"


class RouteFields:
    """Reads the schemas of routes, again when they change.

    Args:
        api: the client of the API server.
    """

    def __init__(self, api: Client) -> None:
        self._api = api
        self._read_at = ""
        """The address of the schemas that were read last: it has their hash."""
        self._present: frozenset[str] = frozenset()

    async def present(self, served: collections.abc.Set[str]) -> frozenset[str]:
        """The fields that routes have, as `kinds.mirror_percent` and `kinds.session_persistence` write them; none of a cluster without routes, or whose schemas cannot be read.

        Args:
            served: the kinds of the cluster.
        """
        if not any(kind.key in served for kind in _ROUTES):
            return frozenset()
        try:
            index = _decoded(await self._api.get_text(_INDEX))
            version = f"apis/{kinds.HTTP_ROUTE.api_version}"
            address = str(part(index, "paths", version).get("serverRelativeURL") or "")
            if address and address != self._read_at:
                schema = _decoded(await self._api.get_text(address))
                self._present = fields_of(schema) & {
                    field(kind)
                    for kind in _ROUTES
                    if kind.key in served
                    for field in (kinds.mirror_percent, kinds.session_persistence)
                }
                self._read_at = address
        except (errors.ApiError, ValueError, RecursionError) as error:
            _log.warning("the schemas of routes cannot be read, what was known is kept: %s", error)
        return self._present


def fields_of(document: Fields) -> frozenset[str]:
    """The later fields of routes in a document of OpenAPI 3."""
    found = set()
    for schema in part(document, "components", "schemas").values():
        names = {one.get("kind") for one in entries(schema, "x-kubernetes-group-version-kind")}
        for kind in _ROUTES:
            if kind.kind in names:
                rule = _items(part(schema, "properties", "spec"), "rules")
                if "sessionPersistence" in part(rule, "properties"):
                    found.add(kinds.session_persistence(kind))
                filters = _items(rule, "filters")
                mirrored = part(filters, "properties", "requestMirror", "properties")
                found |= {kinds.mirror_percent(kind)} if "percent" in mirrored else set()
    return frozenset(found)


def _items(schema: Fields, *names: str) -> Fields:
    """The schema of the items of lists inside of each other."""
    for name in names:
        schema = part(schema, "properties", name, "items")
    return schema


def _decoded(text: bytes) -> Fields:
    value = msgspec.json.decode(text)
    return value if isinstance(value, dict) else {}
