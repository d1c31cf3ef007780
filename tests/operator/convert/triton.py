"""Objects of plain Triton, as users have them, and what becomes of them."""

import typing

Object = dict[str, typing.Any]


def deployment(
    container: Object | None = None, pod: Object | None = None, spec: Object | None = None
) -> Object:
    """A Deployment of Triton that reads a bucket, with further fields."""
    server = {
        "name": "triton",
        "image": "nvcr.io/nvidia/tritonserver:24.09-py3",
        "args": ["tritonserver", "--model-repository=s3://acme/models"],
        **(container or {}),
    }
    template = {
        "metadata": {"labels": {"app": "demo"}},
        "spec": {"containers": [server], **(pod or {})},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "demo"},
        "spec": {
            "selector": {"matchLabels": {"app": "demo"}},
            "template": template,
            **(spec or {}),
        },
    }


class Converted(typing.NamedTuple):
    """What a user sees."""

    status: int
    services: list[Object]
    lines: list[str]

    @property
    def predictor(self) -> typing.Any:
        [service] = self.services
        return service["spec"]["predictor"]


RUN = typing.Callable[..., Converted]


def listed(converted: Converted, words: str) -> bool:
    return any(words in line for line in converted.lines)


def service(spec: Object, **metadata: typing.Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "demo", **metadata},
        "spec": {"selector": {"app": "demo"}, **spec},
    }
