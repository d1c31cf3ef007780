"""A canary: a second Deployment beside the service's own, which gets a share of the requests."""

import typing

import msgspec

from naiad_operator.api.types.accelerator import Accelerator
from naiad_operator.api.types.component import ComponentImage
from naiad_operator.api.types.model import Model
from naiad_operator.api.types.pod import Arguments, Image, Resources, ServerVersion, Variables
from naiad_operator.api.types.scaling import Autoscaling, Replicas
from naiad_operator.api.types.structs import Part

DEFAULT_REPLICAS = 1


class Canary(Part, frozen=True):
    """A second Deployment and Service, <name>-canary, which get a share of the requests that come through the Gateway.

    Every field but weight and transformerImage stands in place of the predictor's field of that name, as a whole; what is left out is as in the predictor.
    To promote a canary, write its fields into the predictor while weight is 100, and remove canary when the service is ready again.

    Attributes:
        weight: how many of a hundred requests the canary gets; none while none of its pods serves.
        model: the models that are served.
        image: the server's image.
        server_version: the version of the server in that image.
        args: further options of the server.
        env: environment variables of the server.
        resources: CPU, memory and ephemeral storage.
        accelerator: what each pod computes on.
        replicas: how many pods; not with autoscaling class hpa or keda, which decide it. 1 when not set.
        autoscaling: who decides how many pods the canary has; the predictor's autoscaling is never the canary's.
        transformer_image: the image of the transformer in front of the canary; the transformer's own when not set.
    """

    weight: typing.Annotated[int, msgspec.Meta(ge=0, le=100)]
    model: Model | None = None
    image: Image | None = None
    server_version: ServerVersion | None = None
    args: Arguments | None = None
    env: Variables | None = None
    resources: Resources | None = None
    accelerator: Accelerator | None = None
    replicas: Replicas | None = None
    autoscaling: Autoscaling | None = None
    transformer_image: ComponentImage | None = None
