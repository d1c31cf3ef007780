"""The validation rules of model repositories."""

from naiad_operator.api.rules.rule import Rule

_DOTS_PATTERN = "(/[.][.]|^(s3|gs|as)://.*/[.])(/|$)"
"""An address that names another folder than it seems to: kubelets refuse ".." in a claim's path, and the server both in a store's."""

URI_PATTERN = r"^((s3|gs|as)://[^/ ].*|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/.*)?)$"

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

MODEL = (
    Rule(
        cel="has(self.storageUri) != has(self.repositories)",
        message="write storageUri for one model repository, or repositories for several, not both and not neither",
    ),
    Rule(
        cel="!has(self.storage) || has(self.storageUri)",
        message="storage belongs to storageUri; with repositories, write it into each of them",
        field="storage",
    ),
    Rule(
        cel="!(has(self.storageUri) && has(self.storage) && self.storageUri.startsWith('pvc://'))",
        message="a PersistentVolumeClaim needs no credentials: leave storage out with pvc://",
        field="storage",
    ),
    Rule(
        cel="!(has(self.storage) && (has(self.storage.endpoint) || has(self.storage.region))) || (has(self.storageUri) && "
        "self.storageUri.startsWith('s3://'))",
        message="storage.endpoint and storage.region are for s3:// only: leave them out",
        field="storage",
    ),
    Rule(
        cel="!(has(self.storage) && has(self.storage.serviceAccountKeyField)) || (has(self.storageUri) && self.storageUri.startsWith('gs://'))",
        message="storage.serviceAccountKeyField names Google's key file, so it is for gs:// only: leave it out",
        field="storage",
    ),
    Rule(
        cel=f"!has(self.storageUri) || self.storageUri.matches('{URI_PATTERN}')",
        message="write s3://bucket/path, gs://bucket/path, as://account/container/path or pvc://claim/path",
        field="storageUri",
    ),
    Rule(
        cel=f"!has(self.storageUri) || !self.storageUri.matches('{_DOTS_PATTERN}')",
        message=_NO_DOTS,
        field="storageUri",
    ),
    Rule(
        cel="!has(self.repositories) || ['s3://', 'gs://', 'as://'].all(scheme, self.repositories.all(a, "
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
        message="write s3://bucket/path, gs://bucket/path, as://account/container/path or pvc://claim/path",
        field="storageUri",
    ),
    Rule(
        cel="!(has(self.storage) && self.storageUri.startsWith('pvc://'))",
        message="a PersistentVolumeClaim needs no credentials: leave storage out with pvc://",
        field="storage",
    ),
    Rule(
        cel="!(has(self.storage) && (has(self.storage.endpoint) || has(self.storage.region))) || self.storageUri.startsWith('s3://')",
        message="storage.endpoint and storage.region are for s3:// only: leave them out",
        field="storage",
    ),
    Rule(
        cel="!(has(self.storage) && has(self.storage.serviceAccountKeyField)) || self.storageUri.startsWith('gs://')",
        message="storage.serviceAccountKeyField names Google's key file, so it is for gs:// only: leave it out",
        field="storage",
    ),
)

STORES = (
    *(
        Rule(
            cel=f"!has(self.{store}) || !(has(self.{store}.endpoint) || has(self.{store}.region))",
            message="endpoint and region are for s3 only: leave them out",
            field=store,
        )
        for store in ("gs", "azure")
    ),
    *(
        Rule(
            cel=f"!has(self.{store}) || !has(self.{store}.serviceAccountKeyField)",
            message="serviceAccountKeyField names Google's key file, so it is for gs only: leave it out",
            field=store,
        )
        for store in ("s3", "azure")
    ),
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
        cel="has(self.size) == (self.type == 'emptyDir')",
        message="an emptyDir needs a size, e.g. 20Gi; a claim has its own, so leave size out with type: pvc",
        field="size",
    ),
    Rule(
        cel="has(self.claimName) == (self.type == 'pvc')",
        message="claimName names the PersistentVolumeClaim of type: pvc: write both, or neither",
        field="claimName",
    ),
)
