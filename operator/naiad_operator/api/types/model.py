"""The model repositories of a service."""

import typing

import msgspec

from naiad_operator.api.types.bounds import AnyObject, DataKey, ObjectName, Quantity
from naiad_operator.api.types.structs import Part

StorageUri = typing.Annotated[
    str, msgspec.Meta(max_length=1024)
]  # its pattern is a rule, which has better words
Endpoint = typing.Annotated[
    str, msgspec.Meta(min_length=8, max_length=253, pattern=r"^https?://[^/\s]+$")
]
Region = typing.Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
ModelName = typing.Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[^\s=]+$")]

FolderPath = typing.Annotated[
    str, msgspec.Meta(min_length=2, max_length=512, pattern=r"^(/[^/\s:]+)+/?$")
]
"""An absolute path in a container or on a node."""

ImagePath = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=512, pattern=r"^/([^/\s:]+(/[^/\s:]+)*/?)?$")
]
"""An absolute path in an image; `/` is its top."""

InnerPath = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=512, pattern=r"^[^/\s:]+(/[^/\s:]+)*/?$")
]
"""A path below the top of a volume."""

VolumeName = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
ImageReference = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=512, pattern=r"^[^\s]+$")
]

Requirement = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=256, pattern=r"^([A-Za-z0-9][^\r\n]*|-r +/[^\s]+)$")
]


class Storage(Part, frozen=True):
    """How an object store is reached. Only pods read the Secret, never the operator.

    Attributes:
        secret_name: the Secret with the credentials. For s3 its keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and
            AWS_SESSION_TOKEN if there is one), for as AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, for gs the key file under
            serviceAccountKeyField, for hf HF_TOKEN, for oci .dockerconfigjson, as in a pull secret (kubectl create secret docker-registry). Without a
            Secret the pod's own identity is used (see predictor.serviceAccountName), and for hf and oci none.
        service_account_key_field: the key in the Secret that holds a Google service account's JSON key file (gs only); key.json
            when not set.
        credential_file_key: the key in the Secret that holds a credential file in Triton's format, for several accounts at once;
            used in place of the single keys (s3, gs and as only).
        endpoint: for s3, the address of a store other than AWS, e.g. https://minio.storage:9000; for hf, a mirror of the Hugging Face Hub.
        region: for s3, the bucket's region.
    """

    secret_name: ObjectName | None = None
    service_account_key_field: DataKey | None = None
    credential_file_key: DataKey | None = None
    endpoint: Endpoint | None = None
    region: Region | None = None


class Repository(Part, frozen=True):
    """One model repository: a folder that contains one folder per model.

    Attributes:
        storage_uri: s3://bucket/path, gs://bucket/path, as://account/container/path, hf://owner/name@revision/path, oci://registry/name:tag or
            pvc://claim/path.
        storage: how the store is reached.
    """

    storage_uri: StorageUri
    storage: Storage | None = None


class Load(Part, frozen=True):
    """Which models are loaded, and when.

    Attributes:
        mode: all loads every model at start; explicit loads those in models, then what clients load; poll watches the
            repository for changes.
        models: the models to load at start (explicit only); "*" alone means all.
        poll_seconds: seconds between two checks of the repository (poll only); 15 when not set.
    """

    mode: typing.Literal["all", "explicit", "poll"] = "all"
    models: typing.Annotated[tuple[ModelName, ...], msgspec.Meta(max_length=256)] | None = None
    poll_seconds: typing.Annotated[int, msgspec.Meta(ge=1, le=86400)] | None = None


class Cache(Part, frozen=True):
    """A volume for what a server keeps on disk: copies of remote models and built Python environments.

    Attributes:
        type: emptyDir is deleted with the pod; pvc persists and may be shared; hostPath is a folder of the node, shared by the pods of a namespace on it. Only
            a profile names one, unless the platform allows every podTemplate.
        size: the size limit of an emptyDir; also the pod's ephemeral-storage request when resources.requests has none. With hostPath, how much downloaded models
            may take per node and namespace: what no pod uses is removed beyond it.
        claim_name: the PersistentVolumeClaim (pvc only); pods on several nodes need one that is ReadWriteMany.
        path: the folder of the nodes (hostPath only), which exists and which every user may write, as the chart's nodeCache prepares it. Each namespace has a
            folder of its own in it.
    """

    type: typing.Literal["emptyDir", "pvc", "hostPath"] = "emptyDir"
    size: Quantity | None = None
    claim_name: ObjectName | None = None
    path: FolderPath | None = None


class ModelImage(Part, frozen=True):
    """A model repository that lies in an image, read-only: nothing is fetched.

    Attributes:
        path: the folder in the image that contains one folder per model, e.g. /opt/models.
        reference: the image, when it is another one than predictor.image: it is mounted as a volume and runs nothing, so that it may hold models alone, or
            another server. Nodes pull it like every image, with predictor.imagePullSecrets. Kubernetes mounts images from release 1.35 on.
        pull_policy: when nodes pull the image of reference: as in a container. Always for a tag latest and else IfNotPresent, when not set.
    """

    path: ImagePath
    reference: ImageReference | None = None
    pull_policy: typing.Literal["Always", "IfNotPresent", "Never"] | None = None


class ModelVolume(Part, frozen=True):
    """A model repository in a volume of the pod, which init containers in predictor.podTemplate fill; the server only reads it.

    Attributes:
        name: the volume's name in the pod, which the init containers mount.
        path: the folder in the volume that contains one folder per model; its top when not set.
        mount_path: where the server finds the volume.
        size: the size limit of an emptyDir, which the volume is without claimName and hostPath.
        claim_name: a PersistentVolumeClaim, which persists what is filled in.
        host_path: a folder of the node, which exists on every node that the pods may use. Only where the platform allows every podTemplate
            (docs/security.md).
    """

    name: VolumeName = "models"
    path: InnerPath | None = None
    mount_path: FolderPath = "/mnt/models"
    size: Quantity | None = None
    claim_name: ObjectName | None = None
    host_path: FolderPath | None = None


class ModelOverride(Part, frozen=True):
    """Fields of a model's config that replace those of its config.pbtxt.

    Attributes:
        model: the model's name.
        config: the fields, as in config.pbtxt or in camel case, e.g. maxBatchSize: 16 and instanceGroup: [{count: 2}]. Each replaces the
            model's own as a whole; of a map, such as parameters, only the entries that are written are replaced.
    """

    model: ModelName
    config: AnyObject


class Model(Part, frozen=True):
    """The models that are served. Set storageUri, or repositories for several, or image or volume for models that no store has.

    Attributes:
        storage_uri: a model repository: s3://bucket/path, gs://bucket/path, as://account/container/path, hf://owner/name@revision/path,
            oci://registry/name:tag (an image with a folder /models, or an artifact; oci://http://… for a registry without TLS) or pvc://claim/path. It is
            the folder that contains one folder per model, not the model's own folder.
        storage: how the store of storageUri is reached.
        repositories: several model repositories, read in this order.
        image: models that lie in an image: the server's own, or another one.
        volume: models in a volume of the pod, which an init container in predictor.podTemplate fills.
        load: which models are loaded, and when.
        delivery: server lets the server read the store itself; init fetches each repository once per pod in an init container, so that
            the server holds no credentials. init is not possible with pvc:// or load.mode poll.
        cache: a volume for what a server keeps on disk.
        overrides: fields of models' configs that differ in this service; they count at each load.
        python_requirements: packages, each as pip takes it (e.g. transformers==4.57), or files of packages (-r /mnt/models/requirements.txt), for all Python models that bring no environment of their own; a
            pod installs them once, into the cache. For another index or an offline one, set pip's variables in predictor.env, e.g.
            PIP_INDEX_URL.
    """

    storage_uri: StorageUri | None = None
    storage: Storage | None = None
    repositories: (
        typing.Annotated[tuple[Repository, ...], msgspec.Meta(min_length=1, max_length=8)] | None
    ) = None
    image: ModelImage | None = None
    volume: ModelVolume | None = None
    load: Load = Load()
    delivery: typing.Literal["server", "init"] = "server"
    cache: Cache | None = None
    overrides: typing.Annotated[tuple[ModelOverride, ...], msgspec.Meta(max_length=64)] | None = (
        None
    )
    python_requirements: (
        typing.Annotated[tuple[Requirement, ...], msgspec.Meta(max_length=64)] | None
    ) = None
