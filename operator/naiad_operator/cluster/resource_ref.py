"""The reference to an object or a collection in the Kubernetes API, and its URL path. Pure."""

import dataclasses
import urllib.parse

from typing_extensions import override


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceRef:
    """Names a collection of the API, or one object in it.

    Attributes:
        api_version: as in manifests: "v1", "apps/v1".
        plural: the resource's plural name, e.g. "deployments".
        namespace: "" means all namespaces, or a cluster-scoped resource.
        name: the object's name; "" means the collection.
    """

    api_version: str
    plural: str
    namespace: str = ""
    name: str = ""

    def url(self, subresource: str = "") -> str:
        """The URL path on the API server, optionally of a subresource such as "status"."""
        root = "/apis/" if "/" in self.api_version else "/api/"
        scope = f"/namespaces/{self.namespace}" if self.namespace else ""
        parts = [root + self.api_version + scope, self.plural]
        parts += [urllib.parse.quote(self.name, safe="")] if self.name else []
        parts += [subresource] if subresource else []
        return "/".join(parts)

    @override
    def __str__(self) -> str:
        group = self.api_version.rpartition("/")[0]
        kind = f"{self.plural}.{group}" if group else self.plural
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{kind} {where}" if where else kind
