"""The validation rules of model repositories."""

from naiad_operator.api.rules.rule import Rule

_DOTS_PATTERN = "(/[.][.]|^(s3|gs|as|hf)://.*/[.])(/|$)"
"""An address that names another folder than it seems to: kubelets refuse ".." in a claim's path, and the server both in a store's."""

URI_PATTERN = (
    r"^((s3|gs|as)://[^/ ].*|(hf|oci)://[^/ ]+/[^ ]+|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/.*)?)$"
)

_FORMS = "write s3://bucket/path, gs://bucket/path, as://account/container/path, hf://owner/name, oci://registry/name:tag or pvc://claim/path"

_ENDPOINT = "storage.endpoint is for s3:// and hf://, storage.region for s3:// only: leave them out"

_NO_FILE = "storage.credentialFileKey names Triton's credential file, which has no hf:// and oci://: leave it out"


def _of_one_store(given: str = "") -> tuple[Rule, ...]:
    """The rules of an address and its storage, which a model and each of its repositories have.

    Args:
        given: what holds where there is an address, which a model may lack.
    """
    uri = "self.storageUri"

    def only(field: str, *schemes: str) -> str:
        stores = " || ".join(f"{uri}.startsWith('{scheme}://')" for scheme in schemes)
        return f"!(has(self.storage) && has(self.storage.{field})) || ({given}({stores}))"

    return (
        Rule(cel=only("endpoint", "s3", "hf"), message=_ENDPOINT, field="storage"),
        Rule(cel=only("region", "s3"), message=_ENDPOINT, field="storage"),
        Rule(
            cel=only("serviceAccountKeyField", "gs"),
            message="storage.serviceAccountKeyField names Google's key file, so it is for gs:// only: leave it out",
            field="storage",
        ),
        Rule(
            cel=only("credentialFileKey", "s3", "gs", "as"),
            message=_NO_FILE,
            field="storage",
        ),
    )


_NO_DOTS = "has '.' or '..' in its path: write the path without"

_ACCOUNT = (
    ("secretName", ""),
    ("region", ""),
    ("serviceAccountKeyField", "key.json"),
    ("credentialFileKey", ""),
)
"""The fields that make up an account, with the value that stands for an absent field."""

_SAME_ACCOUNT = " && ".join(
    f"(has(a.storage.{field}) ? a.storage.{field} : '{default}') == (has(b.storage.{field}) ? b.storage.{field} : '{default}')"
    for field, default in _ACCOUNT
)

_SAME_FILE = " && ".join(
    f"(has(a.storage.{field}) ? a.storage.{field} : '') == (has(b.storage.{field}) ? b.storage.{field} : '')"
    for field in ("secretName", "credentialFileKey")
)

_SAME_ENDPOINT = (
    "(has(a.storage) && has(a.storage.endpoint) ? a.storage.endpoint : '') == "
    "(has(b.storage) && has(b.storage.endpoint) ? b.storage.endpoint : '')"
)

ADDRESS = (
    Rule(
        cel="!(has(self.storageUri) && has(self.storage) && self.storageUri.startsWith('pvc://'))",
        message="a PersistentVolumeClaim needs no credentials: leave storage out with pvc://",
        field="storage",
    ),
    *_of_one_store("has(self.storageUri) && "),
    Rule(
        cel=f"!has(self.storageUri) || self.storageUri.matches('{URI_PATTERN}')",
        message=_FORMS,
        field="storageUri",
    ),
    Rule(
        cel=f"!has(self.storageUri) || !self.storageUri.matches('{_DOTS_PATTERN}')",
        message=_NO_DOTS,
        field="storageUri",
    ),
)
"""The rules of storageUri and its storage where either may be absent: of a model, and of a component."""

MODEL = (
    Rule(
        cel="[has(self.storageUri), has(self.repositories), has(self.image), has(self.volume)].exists_one(one, one)",
        message="write storageUri for one model repository, repositories for several, image for models in an image, or volume for a folder that an init "
        "container fills: one of them",
    ),
    Rule(
        cel="!has(self.storage) || has(self.storageUri)",
        message="storage belongs to storageUri; with repositories, write it into each of them",
        field="storage",
    ),
    *ADDRESS,
    Rule(
        cel="!has(self.repositories) || ['s3://', 'gs://', 'as://', 'hf://', 'oci://'].all(scheme, self.repositories.all(a, "
        "!(a.storageUri.startsWith(scheme) && has(a.storage)) || self.repositories.all(b, !b.storageUri.startsWith(scheme) || "
        f"(has(b.storage) && {_SAME_ACCOUNT}))))",
        message="repositories of one kind of store share one account: write the same secretName, region, serviceAccountKeyField and "
        "credentialFileKey into each; for several accounts, write Triton's credential file into one Secret and name its key in "
        "storage.credentialFileKey of each",
        field="repositories",
    ),
    Rule(
        cel="!has(self.repositories) || self.repositories.all(a, !(has(a.storage) && has(a.storage.credentialFileKey)) || "
        "self.repositories.all(b, !(has(b.storage) && has(b.storage.credentialFileKey)) || "
        f"({_SAME_FILE})))",
        message="one credential file holds the accounts of every store: write the same secretName and credentialFileKey into each repository "
        "that uses it",
        field="repositories",
    ),
    Rule(
        cel="!has(self.repositories) || self.repositories.all(a, !a.storageUri.startsWith('hf://') || self.repositories.all(b, "
        f"!b.storageUri.startsWith('hf://') || ({_SAME_ENDPOINT})))",
        message="hf:// repositories come from one Hub: write the same storage.endpoint into each",
        field="repositories",
    ),
    Rule(
        cel="!has(self.repositories) || self.repositories.all(a, self.repositories.exists_one(b, b.storageUri == a.storageUri && "
        f"{_SAME_ENDPOINT}))",
        message="a repository is listed twice: list each once, because a model that is found twice is not served",
        field="repositories",
    ),
    Rule(
        cel="self.delivery != 'init' || !((has(self.storageUri) && self.storageUri.startsWith('pvc://')) || (has(self.repositories) && "
        "self.repositories.exists(one, one.storageUri.startsWith('pvc://'))))",
        message="a claim is mounted, there is nothing to fetch: write delivery: server with pvc://, or leave delivery out",
        field="delivery",
    ),
    Rule(
        cel="self.delivery != 'init' || !(has(self.image) || has(self.volume))",
        message="the models are in the pod, there is nothing to fetch: leave delivery out with image and volume",
        field="delivery",
    ),
    Rule(
        cel="self.delivery != 'init' || self.load.mode != 'poll'",
        message="mode: poll watches the store, and an init container fetches once: write delivery: server, or load.mode: all or explicit",
        field="delivery",
    ),
    Rule(
        cel="!has(self.overrides) || self.overrides.all(a, self.overrides.exists_one(b, b.model == a.model))",
        message="a model has two overrides: write all fields into the config of one of them",
        field="overrides",
    ),
)

REPOSITORY = (
    Rule(
        cel=f"!self.storageUri.matches('{_DOTS_PATTERN}')",
        message=_NO_DOTS,
        field="storageUri",
    ),
    Rule(
        cel=f"self.storageUri.matches('{URI_PATTERN}')",
        message=_FORMS,
        field="storageUri",
    ),
    Rule(
        cel="!(has(self.storage) && self.storageUri.startsWith('pvc://'))",
        message="a PersistentVolumeClaim needs no credentials: leave storage out with pvc://",
        field="storage",
    ),
    *_of_one_store(),
)

_NO_DOTS_IN_A_PATH = "(^|/)[.][.]?(/|$)"

IMAGE = (
    Rule(
        cel=f"!self.path.matches('{_NO_DOTS_IN_A_PATH}')",
        message=_NO_DOTS,
        field="path",
    ),
    Rule(
        cel="!has(self.pullPolicy) || has(self.reference)",
        message="pullPolicy is of the image in reference: the server's own image follows its container, so leave pullPolicy out, or write reference",
        field="pullPolicy",
    ),
)

VOLUME = (
    *(
        Rule(
            cel=f"!has(self.{field}) || !self.{field}.matches('{_NO_DOTS_IN_A_PATH}')",
            message=_NO_DOTS,
            field=field,
        )
        for field in ("path", "mountPath", "hostPath")
    ),
    Rule(
        cel="!(has(self.claimName) && has(self.hostPath))",
        message="a volume is a claim or a folder of the node: leave claimName or hostPath out",
        field="hostPath",
    ),
    Rule(
        cel="!has(self.size) || !(has(self.claimName) || has(self.hostPath))",
        message="size is the limit of an emptyDir: leave it out with claimName and hostPath",
        field="size",
    ),
    Rule(
        cel="!self.name.matches('^(tmp|shm|cache|auth|fetched|model-image|credentials.*|repository-.*)$')",
        message="the operator has a volume of this name: write another one, e.g. models",
        field="name",
    ),
    Rule(
        cel="!(self.mountPath + '/').matches('^/((tmp|dev|proc|sys|etc|var/cache/naiad|mnt/repositories|mnt/fetched|mnt/image)/|$)')",
        message="the server needs what is there: write another folder, e.g. /mnt/models",
        field="mountPath",
    ),
)

STORES = tuple(
    Rule(
        cel=f"!has(self.{store}) || !has(self.{store}.{field})",
        message=message,
        field=store,
    )
    for field, message, stores in (
        ("endpoint", "endpoint is for s3 and hf only: leave it out", ("gs", "azure", "oci")),
        ("region", "region is for s3 only: leave it out", ("gs", "azure", "hf", "oci")),
        (
            "serviceAccountKeyField",
            "serviceAccountKeyField names Google's key file, so it is for gs only: leave it out",
            ("s3", "azure", "hf", "oci"),
        ),
        (
            "credentialFileKey",
            "credentialFileKey names Triton's credential file, which has no hf:// and oci://: leave it out",
            ("hf", "oci"),
        ),
    )
    for store in stores
)

STORAGE = (
    Rule(
        cel="!has(self.serviceAccountKeyField) || (has(self.secretName) && !has(self.credentialFileKey))",
        message="serviceAccountKeyField is a key inside a Secret: name the Secret in secretName, and leave credentialFileKey out, which stands in "
        "its place",
        field="serviceAccountKeyField",
    ),
    Rule(
        cel="!has(self.credentialFileKey) || has(self.secretName)",
        message="credentialFileKey is a key inside a Secret: name the Secret in secretName",
        field="credentialFileKey",
    ),
)

LOAD = (
    Rule(
        cel="!has(self.pollSeconds) || self.mode == 'poll'",
        message="pollSeconds is the interval of mode: poll: set mode: poll, or leave pollSeconds out",
        field="pollSeconds",
    ),
    Rule(
        cel="has(self.models) == (self.mode == 'explicit')",
        message="models are the ones that mode: explicit loads: write both, or neither",
        field="models",
    ),
    Rule(
        cel="!has(self.models) || size(self.models) == 1 || !('*' in self.models)",
        message="'*' means every model, so it stands alone: leave the other names out",
        field="models",
    ),
)

CACHE = (
    Rule(
        cel="self.type == 'emptyDir' ? has(self.size) : (self.type == 'hostPath' || !has(self.size))",
        message="an emptyDir needs a size, e.g. 20Gi; a claim has its own, so leave size out with type: pvc",
        field="size",
    ),
    Rule(
        cel="has(self.claimName) == (self.type == 'pvc')",
        message="claimName names the PersistentVolumeClaim of type: pvc: write both, or neither",
        field="claimName",
    ),
    Rule(
        cel="has(self.path) == (self.type == 'hostPath')",
        message="path names the folder of the nodes of type: hostPath: write both, or neither",
        field="path",
    ),
    Rule(
        cel=f"!has(self.path) || !self.path.matches('{_NO_DOTS_IN_A_PATH}')",
        message=_NO_DOTS,
        field="path",
    ),
)
