"""Every path of the HTTP API, declared once: its operation, its methods, and its category for restricted APIs (row 17.15). Pure.

`routes.py` handles those of the fast lane and `admin/app.py` the others, each by the name of the operation; `admin/control_plane.py` checks
the headers of restricted categories; the error message of an unknown path suggests one of these.
"""

import collections.abc

import msgspec

from naiad.protocol.http.transport.head import holds_control
from naiad.protocol.restricted import Category

BASE_PATH = "naiad.base_path"
"""The key of an ASGI scope whose request came below the base path."""

_MODEL = "/v2/models/{model}"
_VERSION = "/v2/models/{model}/versions/{version}"
_REPOSITORY = "/v2/repository/{repository}"
_V1_MODEL = "/v1/models/{model}"
_V1_VERSION = "/v1/models/{model}/versions/{version}"

_GET = ("GET",)
_POST = ("POST",)
_BOTH = ("GET", "POST")


V1_MODEL_READY = "v1_model_ready"
"""The operation of paths whose models have no colon in their names: what follows a colon there is a verb that does not exist."""


class ApiPath(msgspec.Struct, frozen=True):
    """A path.

    Attributes:
        template: the path with its parameters in braces, each a whole segment but for a verb behind it (`{model}:predict`); `{version}` takes digits
            only (row 1.8).
        operation: what it does; paths that differ only in optional segments share one.
        category: what a restriction calls it; None for a path that no restriction covers.
    """

    template: str
    operation: str
    category: Category | None
    methods: tuple[str, ...]
    fast: bool
    segments: tuple[str, ...]

    def match(self, segments: collections.abc.Sequence[str]) -> dict[str, str] | None:
        """The parameters of a path of as many segments; None if it is not of this template."""
        parameters: dict[str, str] = {}
        for own, segment in zip(self.segments, segments, strict=True):
            if not own.startswith("{"):
                if own != segment:
                    return None
            else:
                name, _, verb = own[1:].partition("}")
                value = segment.removesuffix(verb)
                if (
                    not value
                    or not segment.endswith(verb)
                    or (name == "version" and not _is_number(value))
                    or (self.operation == V1_MODEL_READY and ":" in value)
                ):
                    return None
                parameters[name] = value
        return parameters


def _is_number(segment: str) -> bool:
    return segment.isascii() and segment.isdigit()


def _paths(
    operation: str,
    category: Category | None,
    *templates: str,
    methods: tuple[str, ...] = ("GET",),
    fast: bool = False,
) -> list[ApiPath]:
    return [
        ApiPath(template, operation, category, methods, fast, tuple(template.split("/")))
        for template in templates
    ]


def _model_paths(
    operation: str, category: Category, action: str, *, method: str = "GET", fast: bool = False
) -> list[ApiPath]:
    """The path of a model and that of one of its versions."""
    templates = (_MODEL + action, _VERSION + action)
    return _paths(operation, category, *templates, methods=(method,), fast=fast)


def _v1_paths(operation: str, category: Category, *templates: str, verb: str = "") -> list[ApiPath]:
    """Paths of KServe's v1; those with a verb take a POST."""
    methods = _POST if verb else _GET
    return _paths(
        operation, category, *(each + verb for each in templates), methods=methods, fast=True
    )


def _region_paths(kind: str, action: str, operation: str, method: str) -> list[ApiPath]:
    """The path of all regions of client shared memory, and that of one."""
    base = f"/v2/{kind}sharedmemory"
    templates = (f"{base}/{action}", f"{base}/region/{{region}}/{action}")
    return _paths(operation, Category.SHARED_MEMORY, *templates, methods=(method,))


API: tuple[ApiPath, ...] = (
    *_paths("server_live", Category.HEALTH, "/v2/health/live", fast=True),
    *_paths("server_ready", Category.HEALTH, "/v2/health/ready", fast=True),
    *_model_paths("model_ready", Category.HEALTH, "/ready", fast=True),
    *_model_paths("infer", Category.INFERENCE, "/infer", method="POST", fast=True),
    *_model_paths("generate", Category.INFERENCE, "/generate", method="POST", fast=True),
    *_model_paths(
        "generate_stream", Category.INFERENCE, "/generate_stream", method="POST", fast=True
    ),
    *_paths("server_metadata", Category.METADATA, "/v2"),
    # A model called "stats" has its metadata only under its version (row 8.1): the first path that matches counts.
    *_paths("all_statistics", Category.STATISTICS, "/v2/models/stats"),
    *_model_paths("model_metadata", Category.METADATA, ""),
    *_model_paths("model_config", Category.MODEL_CONFIG, "/config"),
    *_model_paths("model_statistics", Category.STATISTICS, "/stats"),
    *_model_paths("model_graph", Category.STATISTICS, "/graph"),
    *_model_paths("model_queue", Category.STATISTICS, "/queue"),
    *_paths(
        "index",
        Category.MODEL_REPOSITORY,
        "/v2/repository/index",
        f"{_REPOSITORY}/index",
        methods=_POST,
    ),
    *_paths("load_progress", Category.MODEL_REPOSITORY, "/v2/repository/progress"),
    *_paths("load", Category.MODEL_REPOSITORY, "/v2/repository/models/{model}/load", methods=_POST),
    *_paths(
        "unload", Category.MODEL_REPOSITORY, "/v2/repository/models/{model}/unload", methods=_POST
    ),
    *_paths(
        "change_model_of_repository",
        Category.MODEL_REPOSITORY,
        f"{_REPOSITORY}/models/{{model}}/load",
        f"{_REPOSITORY}/models/{{model}}/unload",
        methods=_POST,
    ),
    *_region_paths("system", "status", "system_regions", "GET"),
    *_region_paths("system", "register", "register_region", "POST"),
    *_region_paths("system", "unregister", "unregister_region", "POST"),
    *_region_paths("cuda", "status", "cuda_regions", "GET"),
    *_region_paths("cuda", "register", "register_cuda_region", "POST"),
    *_region_paths("cuda", "unregister", "unregister_cuda_region", "POST"),
    *_paths(
        "trace_setting",
        Category.TRACE,
        "/v2/trace/setting",
        f"{_MODEL}/trace/setting",
        methods=_BOTH,
    ),
    *_paths("logging", Category.LOGGING, "/v2/logging", methods=_BOTH),
    # KServe's v1 (`docs/kserve-v1.md`).
    *_v1_paths("predict", Category.INFERENCE, _V1_MODEL, _V1_VERSION, verb=":predict"),
    *_v1_paths("explain", Category.INFERENCE, _V1_MODEL, _V1_VERSION, verb=":explain"),
    *_v1_paths("v1_models", Category.MODEL_REPOSITORY, "/v1/models"),
    *_v1_paths(V1_MODEL_READY, Category.HEALTH, _V1_MODEL, _V1_VERSION),
    *_paths("docs", None, "/docs"),
    *_paths("description", None, "/openapi.json"),
)
"""All paths; of several that match, the first counts."""

_BY_LENGTH: dict[int, list[ApiPath]] = {}
for _path in API:
    _BY_LENGTH.setdefault(len(_path.segments), []).append(_path)


def find(path: str) -> tuple[ApiPath, dict[str, str]] | None:
    """The declaration of a decoded path and its parameters; None for a path that does not exist."""
    segments = path.split("/")
    for declared in _BY_LENGTH.get(len(segments), ()):
        parameters = declared.match(segments)
        if parameters is not None:
            return declared, parameters
    return None


def is_v1(path: ApiPath) -> bool:
    """Whether a path is one of KServe's v1, which `--allow-kserve-v1` turns off."""
    return path.segments[1] == "v1"


def without_base(base: str, path: str) -> str:
    """A decoded path without the base path (`--http-base-path`); a path that is not below it, as it is."""
    if not base or not path.startswith(base):
        return path
    inner = path[len(base) :]
    return inner if inner.startswith("/") else path if inner else "/"


def category_of(path: str) -> Category | None:
    """The category of a decoded path; None for one that has none, such as the docs page or an unknown path.

    A path with a control character has none: two readers of it could disagree.
    """
    declared = None if holds_control(path) else find(path)
    return None if declared is None else declared[0].category
