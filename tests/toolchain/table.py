"""Which programs are built from Go modules, and at which versions.

A module that cannot be built today, or only with help, says why; every version here was built and used.
"""

import dataclasses

KUBERNETES_VERSION = "v1.36.3"
ETCD_VERSION = "v3.6.7"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Go module and the programs of it that are used.

    Attributes:
        path: of the module.
        version: its version.
        programs: by name; the package of each, relative to the module ("" is the module's root).
        tags: of the build.
        stamp: `-X` values of the linker, by variable.
        replace: lines for `go.mod`, for a module whose own `go.mod` replaces others (Go ignores that in a dependency).
        staging: whether its own `go.mod` replaces modules by folders of its source tree, as Kubernetes' does: each is replaced by
            the version that was released with it (v1.36.3 goes with v0.36.3).
        minutes: about how long the build takes on two cores.
    """

    path: str
    version: str
    programs: dict[str, str]
    tags: str = ""
    stamp: "dict[str, str]" = dataclasses.field(default_factory=dict)
    replace: tuple[str, ...] = ()
    staging: bool = False
    minutes: int = 1

    @property
    def name(self) -> str:
        """The name of its folder in the cache: the project, which is the second part of its path, and the version."""
        return f"{self.path.split('/')[1]}-{self.version}"


def _kubernetes_stamp() -> dict[str, str]:
    """Without it `kubectl version` fails to parse the server's version, and helm cannot compare it."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return {f"k8s.io/component-base/version.{name}": value for name, value in values.items()}


MODULES = (
    Module(
        path="go.etcd.io/etcd/server/v3",
        version=ETCD_VERSION,
        programs={"etcd": ""},
    ),
    Module(
        path="k8s.io/kubernetes",
        version=KUBERNETES_VERSION,
        programs={
            name: f"cmd/{name}"
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubelet",
                "kube-proxy",
                "kubectl",
            )
        },
        stamp=_kubernetes_stamp(),
        staging=True,
        minutes=6,
    ),
    Module(
        path="github.com/containerd/containerd/v2",
        version="v2.4.2",
        programs={
            "containerd": "cmd/containerd",
            "containerd-shim-runc-v2": "cmd/containerd-shim-runc-v2",
            "ctr": "cmd/ctr",
        },
        minutes=2,
    ),
    Module(
        path="github.com/coredns/coredns",
        version="v1.14.7",
        programs={"coredns": ""},
        minutes=2,
    ),
    Module(
        path="github.com/traefik/traefik/v3",
        # 3.7 does not build: it pins commits of go-http-auth and lego that no module proxy serves.
        version="v3.6.6",
        programs={"traefik": "cmd/traefik"},
        replace=(
            "github.com/abbot/go-http-auth => github.com/containous/go-http-auth v0.4.1-0.20200324110947-a37a7636d23e",
            "github.com/gorilla/mux => github.com/containous/mux v0.0.0-20250523120546-41b6ec3aed59",
            "github.com/mailgun/minheap => github.com/containous/minheap v0.0.0-20190809180810-6e71eb837595",
        ),
        minutes=5,
    ),
    Module(
        path="github.com/projectcontour/contour",
        version="v1.33.8",
        programs={"contour": "cmd/contour"},
        minutes=2,
    ),
    Module(
        path="helm.sh/helm/v3",
        version="v3.22.0",
        programs={"helm": "cmd/helm"},
        minutes=2,
    ),
    Module(
        path="github.com/prometheus/prometheus",
        version="v0.315.0",
        programs={"prometheus": "cmd/prometheus"},
        tags="netgo,remove_all_sd,enable_kubernetes_sd,enable_dns_sd",
        minutes=2,
    ),
    Module(
        path="sigs.k8s.io/prometheus-adapter",
        version="v0.12.0",
        programs={"prometheus-adapter": "cmd/adapter"},
        minutes=2,
    ),
    Module(
        path="github.com/versity/versitygw",
        version="v1.8.0",
        programs={"versitygw": "cmd/versitygw"},
        minutes=2,
    ),
    Module(
        path="github.com/distribution/distribution/v3",
        version="v3.1.2",
        programs={"registry": "cmd/registry"},
        minutes=2,
    ),
    Module(
        path="github.com/summerwind/h2spec",
        # The newest that a module proxy serves: from 2.3 on its go.mod lacks the /v2 that Go wants.
        version="v2.2.1+incompatible",
        programs={"h2spec": "cmd/h2spec"},
    ),
    Module(
        path="google.golang.org/grpc",
        version="v1.83.2",
        programs={"grpc-interop-client": "interop/client"},
    ),
    Module(
        path="github.com/fullstorydev/grpcurl",
        version="v1.9.3",
        programs={"grpcurl": "cmd/grpcurl"},
    ),
    Module(
        path="github.com/bojand/ghz",
        # What `latest` names is from 2021.
        version="v0.121.0",
        programs={"ghz": "cmd/ghz"},
        minutes=2,
    ),
    Module(
        path="github.com/kedacore/keda/v2",
        # The oldest that the operator supports.
        version="v2.17.0",
        programs={
            "keda-operator": "cmd/operator",
            "keda-metrics-apiserver": "cmd/adapter",
            "keda-admission-webhooks": "cmd/webhooks",
        },
        replace=(
            "github.com/chzyer/logex => github.com/chzyer/logex v1.2.1",
            "github.com/google/cel-go => github.com/google/cel-go v0.20.1",
            "github.com/prometheus/client_golang => github.com/prometheus/client_golang v1.19.1",
            "github.com/prometheus/client_model => github.com/prometheus/client_model v0.6.1",
            "github.com/prometheus/common => github.com/prometheus/common v0.55.0",
            "github.com/prometheus/prometheus => github.com/prometheus/prometheus v0.54.0",
            *(
                f"k8s.io/{name} => k8s.io/{name} v0.31.7"
                for name in (
                    "api",
                    "apiextensions-apiserver",
                    "apimachinery",
                    "apiserver",
                    "client-go",
                    "code-generator",
                    "component-base",
                )
            ),
            # Its own go.mod says v0.31.7 here too, which no checksum database lists.
            "k8s.io/metrics => k8s.io/metrics v0.31.8",
            "k8s.io/gengo/v2 => k8s.io/gengo/v2 v2.0.0-20240228010128-51d4e06bde70",
            "k8s.io/kube-openapi => k8s.io/kube-openapi v0.0.0-20240228011516-70dd3763d340",
        ),
        minutes=4,
    ),
    Module(
        path="github.com/kedacore/http-add-on",
        version="v0.12.0",
        programs={f"keda-http-{name}": name for name in ("operator", "interceptor", "scaler")},
        minutes=4,
    ),
)
