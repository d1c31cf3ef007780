"""Resources that break a rule of model repositories, and some that look as if."""

from tests.operator.api.specs import MODEL, Manifest, model, repositories

BAD: dict[str, tuple[Manifest, str]] = {
    "models in an image and in a store": (
        model(**MODEL, image={"path": "/opt/models"}),
        "spec.predictor.model",
    ),
    "an init container for models in an image": (
        model(image={"path": "/opt/models"}, delivery="init"),
        "spec.predictor.model.delivery",
    ),
    "a path out of an image": (
        model(image={"path": "/opt/../models"}),
        "spec.predictor.model.image.path",
    ),
    "a pull policy of no image": (
        model(image={"path": "/opt/models", "pullPolicy": "Always"}),
        "spec.predictor.model.image.pullPolicy",
    ),
    "a path out of a volume": (
        model(volume={"path": "a/.."}),
        "spec.predictor.model.volume.path",
    ),
    "a mount with dots": (
        model(volume={"mountPath": "/mnt/../etc"}),
        "spec.predictor.model.volume.mountPath",
    ),
    "a folder of the node with dots": (
        model(volume={"hostPath": "/data/.."}),
        "spec.predictor.model.volume.hostPath",
    ),
    "a claim and a folder of the node": (
        model(volume={"claimName": "a", "hostPath": "/data"}),
        "spec.predictor.model.volume.hostPath",
    ),
    "a size of a claim": (
        model(volume={"claimName": "a", "size": "1Gi"}),
        "spec.predictor.model.volume.size",
    ),
    "a volume named as one of the operator's": (
        model(volume={"name": "cache"}),
        "spec.predictor.model.volume.name",
    ),
    "a volume where the server has its own": (
        model(volume={"mountPath": "/tmp"}),
        "spec.predictor.model.volume.mountPath",
    ),
    "a volume over the cache": (
        model(volume={"mountPath": "/var/cache/naiad/models/"}),
        "spec.predictor.model.volume.mountPath",
    ),
    "a region of a hub": (
        model(storageUri="hf://a/b", storage={"region": "x"}),
        "spec.predictor.model.storage",
    ),
    "a path of a cache that is not on the node": (
        model(**MODEL, cache={"size": "1Gi", "path": "/srv"}),
        "spec.predictor.model.cache.path",
    ),
    "a cache on the node without its folder": (
        model(**MODEL, cache={"type": "hostPath"}),
        "spec.predictor.model.cache.path",
    ),
    "a cache on the node with dots": (
        model(**MODEL, cache={"type": "hostPath", "path": "/srv/../etc"}),
        "spec.predictor.model.cache.path",
    ),
    "an endpoint of a registry": (
        model(storageUri="oci://r/b:1", storage={"endpoint": "http://mirror"}),
        "spec.predictor.model.storage",
    ),
    **{
        f"{field} of one of the repositories": (
            repositories({"storageUri": "oci://r/b:1", "storage": {"secretName": "a", field: value}}),
            "spec.predictor.model.repositories[0].storage",
        )
        for field, value in (("endpoint", "http://mirror"), ("region", "x"), ("credentialFileKey", "b"))
    },
    "a credential file of a registry": (
        model(storageUri="oci://r/b:1", storage={"secretName": "a", "credentialFileKey": "b"}),
        "spec.predictor.model.storage",
    ),
    "two hubs": (
        repositories(
            {"storageUri": "hf://a/b", "storage": {"secretName": "a", "endpoint": "https://mirror"}},
            {"storageUri": "hf://a/c", "storage": {"secretName": "a"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "a path out of a hub's repository": (
        model(storageUri="hf://a/b/../c"),
        "spec.predictor.model.storageUri",
    ),
    "no repository": (model(), "spec.predictor.model"),
    "a repository and repositories": (
        model(**MODEL, repositories=[MODEL]),
        "spec.predictor.model",
    ),
    "storage that belongs to none": (
        model(repositories=[MODEL], storage={"secretName": "a"}),
        "spec.predictor.model.storage",
    ),
    "credentials of a claim": (
        model(storageUri="pvc://claim", storage={"secretName": "a"}),
        "spec.predictor.model.storage",
    ),
    "a region of Google's": (
        model(storageUri="gs://b/p", storage={"region": "x"}),
        "spec.predictor.model.storage",
    ),
    "a repository of no known kind": (
        model(storageUri="ftp://org/model"),
        "spec.predictor.model.storageUri",
    ),
    "a path out of a claim": (
        model(storageUri="pvc://claim/../../etc"),
        "spec.predictor.model.storageUri",
    ),
    "a path that ends above a claim's folder": (
        model(storageUri="pvc://claim/a/.."),
        "spec.predictor.model.storageUri",
    ),
    "a bucket's path with dots": (
        model(storageUri="s3://bucket/./models"),
        "spec.predictor.model.storageUri",
    ),
    "one of the repositories with a path out of its claim": (
        repositories(MODEL, {"storageUri": "pvc://claim/../x"}),
        "spec.predictor.model.repositories[1].storageUri",
    ),
    "two accounts of one kind of store": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"secretName": "a"}},
            {"storageUri": "s3://b/p", "storage": {"secretName": "b"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "an account for one of two": (
        repositories({"storageUri": "s3://a/p", "storage": {"secretName": "a"}}, {"storageUri": "s3://b/p"}),
        "spec.predictor.model.repositories",
    ),
    "two regions of one account": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"secretName": "a", "region": "x"}},
            {"storageUri": "s3://b/p", "storage": {"secretName": "a", "region": "y"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "one of the repositories of no known kind": (
        repositories(MODEL, {"storageUri": "/models"}),
        "spec.predictor.model.repositories[1].storageUri",
    ),
    "credentials of one of the claims": (
        repositories(MODEL, {"storageUri": "pvc://claim", "storage": {"secretName": "a"}}),
        "spec.predictor.model.repositories[1].storage",
    ),
    "an endpoint of Azure's": (
        repositories({"storageUri": "as://a/c/p", "storage": {"endpoint": "https://x"}}),
        "spec.predictor.model.repositories[0].storage",
    ),
    "a key file of Google's for Amazon": (
        model(**MODEL, storage={"secretName": "a", "serviceAccountKeyField": "k"}),
        "spec.predictor.model.storage",
    ),
    "a key file of Google's for one of Azure's": (
        repositories({"storageUri": "as://a/c/p", "storage": {"secretName": "a", "serviceAccountKeyField": "k"}}),
        "spec.predictor.model.repositories[0].storage",
    ),
    "a key file in no Secret": (
        model(storageUri="gs://a/b", storage={"serviceAccountKeyField": "k"}),
        "spec.predictor.model.storage.serviceAccountKeyField",
    ),
    "a poll interval without polling": (
        model(**MODEL, load={"pollSeconds": 5}),
        "spec.predictor.model.load.pollSeconds",
    ),
    "a credential file in no Secret": (
        model(**MODEL, storage={"credentialFileKey": "cloud.json"}),
        "spec.predictor.model.storage.credentialFileKey",
    ),
    "models that no mode loads": (
        model(**MODEL, load={"models": ["a"]}),
        "spec.predictor.model.load.models",
    ),
    "a mode that loads no models": (
        model(**MODEL, load={"mode": "explicit"}),
        "spec.predictor.model.load.models",
    ),
    "all models and one": (
        model(**MODEL, load={"mode": "explicit", "models": ["*", "a"]}),
        "spec.predictor.model.load.models",
    ),
    "another key file of one store": (
        repositories(
            {"storageUri": "gs://a/p", "storage": {"secretName": "a"}},
            {"storageUri": "gs://b/p", "storage": {"secretName": "a", "serviceAccountKeyField": "b.json"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "a credential file for one of two": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"secretName": "a"}},
            {"storageUri": "s3://b/p", "storage": {"secretName": "a", "credentialFileKey": "c"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "two regions without an account": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"region": "x"}},
            {"storageUri": "s3://b/p", "storage": {"region": "y"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "a repository that stands twice": (
        repositories({"storageUri": "pvc://a/b"}, {"storageUri": "pvc://c"}, {"storageUri": "pvc://a/b"}),
        "spec.predictor.model.repositories",
    ),
    "a line break behind a repository": (
        model(storageUri="s3://models/production\n"),
        "spec.predictor.model.storageUri",
    ),
    "two credential files": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"secretName": "a", "credentialFileKey": "c"}},
            {"storageUri": "gs://b/p", "storage": {"secretName": "b", "credentialFileKey": "c"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "a claim that is fetched": (
        model(storageUri="pvc://claim", delivery="init"),
        "spec.predictor.model.delivery",
    ),
    "one of the claims that is fetched": (
        model(repositories=[MODEL, {"storageUri": "pvc://claim"}], delivery="init"),
        "spec.predictor.model.delivery",
    ),
    "a watch of what is fetched once": (
        model(**MODEL, delivery="init", load={"mode": "poll"}),
        "spec.predictor.model.delivery",
    ),
    "a cache without a size": (model(**MODEL, cache={}), "spec.predictor.model.cache.size"),
    "a cache without a claim": (
        model(**MODEL, cache={"type": "pvc"}),
        "spec.predictor.model.cache.claimName",
    ),
    "two overrides of a model": (
        model(
            **MODEL,
            overrides=[
                {"model": "a", "config": {}},
                {"model": "b", "config": {}},
                {"model": "a", "config": {"maxBatchSize": 1}},
            ],
        ),
        "spec.predictor.model.overrides",
    ),
}  # fmt: skip

GOOD: dict[str, Manifest] = {
    "models in the server's image": model(image={"path": "/opt/models"}),
    "models in another image": model(
        image={"path": "/opt/models/", "reference": "registry/a:1", "pullPolicy": "Never"}
    ),
    "models that an init container brings": model(volume={"path": "a/b", "size": "1Gi"}),
    "models in a claim that is filled": model(
        volume={"name": "store", "claimName": "a", "mountPath": "/etcetera"}
    ),
    "a hub and a registry": repositories(
        {"storageUri": "hf://a/b@main/c", "storage": {"secretName": "a", "endpoint": "https://m"}},
        {"storageUri": "oci://r:5000/b/c:1", "storage": {"secretName": "b"}},
    ),
    "a cache on the node": model(
        **MODEL, cache={"type": "hostPath", "path": "/srv/naiad", "size": "1Gi"}
    ),
    "a registry without TLS": model(storageUri="oci://http://r:5000/b/c"),
    "dots in names": repositories(
        {"storageUri": "pvc://a/..b/c../v1..2/.d"}, {"storageUri": "s3://b/.../x."}
    ),
    "one path in two stores": repositories(
        {"storageUri": "s3://a/p", "storage": {"endpoint": "https://one.example"}},
        {"storageUri": "s3://a/p", "storage": {"endpoint": "https://two.example"}},
    ),
    "two claims": repositories({"storageUri": "pvc://a/b"}, {"storageUri": "pvc://c"}),
    "one account of two stores": repositories(
        {"storageUri": "s3://a/p", "storage": {"secretName": "a", "region": "x"}},
        {"storageUri": "s3://b/p", "storage": {"secretName": "a", "region": "x"}},
        {"storageUri": "gs://b/p"},
    ),
    "regions without an account": repositories(
        {"storageUri": "s3://a/p", "storage": {"region": "x"}},
        {"storageUri": "s3://b/p", "storage": {"region": "x"}},
    ),
    "the key file of one store, written out and not": repositories(
        {"storageUri": "gs://a/p", "storage": {"secretName": "a"}},
        {
            "storageUri": "gs://b/p",
            "storage": {"secretName": "a", "serviceAccountKeyField": "key.json"},
        },
    ),
    "one credential file of two stores": repositories(
        {"storageUri": "s3://a/p", "storage": {"secretName": "a", "credentialFileKey": "c"}},
        {"storageUri": "gs://b/p", "storage": {"secretName": "a", "credentialFileKey": "c"}},
    ),
    "fetched, then loaded on demand": model(
        **MODEL, delivery="init", load={"mode": "explicit", "models": ["a"]}
    ),
    "overrides of two models, and packages": model(
        **MODEL,
        overrides=[
            {"model": "a", "config": {"maxBatchSize": 16, "instanceGroup": [{"count": 2}]}},
            {"model": "b", "config": {}},
        ],
        pythonRequirements=["transformers==4.57", "torch @ https://example.com/torch.whl"],
    ),
}
