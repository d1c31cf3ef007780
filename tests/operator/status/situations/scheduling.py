"""What a cluster can show of a service, and what its Ready condition then says: pods that get no node."""

from tests.operator.status.parts import (
    MIG,
    NO_NODE,
    NOT_READY,
    ONE_READY,
    OTHER_LABELS,
    SINGLE,
    TOO_LONG,
    VOLUMES,
    Manifest,
    scale_up,
)
from tests.support import manifests
from tests.support.observations import (
    POD,
    ago,
    deployment,
    unscheduled,
)

UNBOUND = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
IS_UNBOUND = f"PersistentVolumeClaim models is not bound to a volume (kubectl describe pvc models): {UNBOUND}"
OTHER_ZONE = (
    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had volume node affinity conflict."
)
OF_CLAIM = {("Deployment", "demo"): deployment(ready=0, spec=VOLUMES)}

NOT: dict[str, tuple[Manifest, tuple[str, str]]] = {
    "a claim without a volume, which may be made": (
        {"children": OF_CLAIM, "pods": [unscheduled(UNBOUND, since=ago(seconds=20))]},
        ("WaitingForVolume", f"pod {POD} waits for its volumes: {IS_UNBOUND}"),
    ),
    "a claim without a volume for longer than that takes": (
        {"children": OF_CLAIM, "pods": [unscheduled(UNBOUND)]},
        ("Unschedulable", f"pod {POD} has no node: {IS_UNBOUND}"),
    ),
    "a claim whose volume is gone": (
        {"children": OF_CLAIM, "pods": [unscheduled('persistentvolumeclaim "models" bound to non-existent persistentvolume "a"', since=ago(seconds=20))]},
        ("Unschedulable", f'pod {POD} has no node: persistentvolumeclaim "models" bound to non-existent persistentvolume "a"'),
    ),
    "a claim that is being deleted": (
        {"children": OF_CLAIM, "pods": [unscheduled('persistentvolumeclaim "models" is being deleted', since=ago(seconds=20))]},
        ("Unschedulable", f'pod {POD} has no node: persistentvolumeclaim "models" is being deleted'),
    ),
    "a volume in another zone says nothing about labels of GPUs": (
        {"resource": manifests.resource(accelerator={"type": "gpu"}), "children": NOT_READY, "pods": [unscheduled(OTHER_ZONE)]},
        ("Unschedulable", f"pod {POD} has no node: {OTHER_ZONE}"),
    ),
    "no node offers the slice, and nodes may be read": (
        {
            "resource": manifests.resource(**MIG),
            "children": NOT_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"cpu": 64, "nvidia.com/mig-3g.40gb": 2, "nvidia.com/gpu": 4, "pods": 110}),
        },
        ("AcceleratorUnavailable", "pod demo-6d5f-x7k2p has no node: no node offers nvidia.com/mig-1g.10gb; nodes offer nvidia.com/gpu (4), nvidia.com/mig-3g.40gb (2)"),
    ),
    "no node offers any accelerator": (
        {
            "resource": manifests.resource(**MIG),
            "children": NOT_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"cpu": 64}),
        },
        ("AcceleratorUnavailable", "pod demo-6d5f-x7k2p has no node: no node offers nvidia.com/mig-1g.10gb; no node offers any accelerator (is the device plugin running?)"),
    ),
    "no node offers the slice, and nodes may not be read": (
        {"resource": manifests.resource(**MIG), "children": NOT_READY, "pods": [unscheduled(NO_NODE)]},
        ("AcceleratorUnavailable", f"pod demo-6d5f-x7k2p has no node: no node has 1 free nvidia.com/mig-1g.10gb: {NO_NODE}"),
    ),
    "every slice is taken": (
        {
            "resource": manifests.resource(**MIG),
            "children": ONE_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"nvidia.com/mig-1g.10gb": 1}),
        },
        ("AcceleratorUnavailable", f"pod demo-6d5f-x7k2p has no node: every nvidia.com/mig-1g.10gb is taken or on a node that does not fit: {NO_NODE}"),
    ),
    "the free GPUs are slices of the strategy single": (
        {
            "resource": manifests.resource(accelerator={"type": "gpu"}),
            "children": NOT_READY,
            "pods": [unscheduled(f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 {OTHER_LABELS}.")],
            "facts": manifests.facts(node_resources={"nvidia.com/gpu": 7}),
        },
        (
            "AcceleratorUnavailable",
            ("pod demo-6d5f-x7k2p has no node: every nvidia.com/gpu is taken or on a node that does not fit: "
            f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 {OTHER_LABELS}. "
            "On nodes with the label nvidia.com/gpu.slices.gi, nvidia.com/gpu is a MIG slice, so pods with whole GPUs do not go there: for a slice, write type: mig and strategy: single"),
        ),
    ),
    "no node has the product": (
        {
            "resource": manifests.resource(accelerator={**SINGLE, "product": "H100"}),
            "children": NOT_READY,
            "pods": [unscheduled(f"0/2 nodes are available: 2 {OTHER_LABELS}.")],
            "facts": manifests.facts(node_resources={"nvidia.com/gpu": 7}),
        },
        (
            "Unschedulable",
            f"pod demo-6d5f-x7k2p has no node: 0/2 nodes are available: 2 {OTHER_LABELS}. The accelerator needs nodes with the label nvidia.com/gpu.product=H100-MIG-1g.10gb",
        ),
    ),
    "no node has one of the products": (
        {
            "resource": manifests.resource(accelerator={**SINGLE, "products": ["A100", "H100"]}),
            "children": NOT_READY,
            "pods": [unscheduled(f"0/2 nodes are available: 2 {OTHER_LABELS}.")],
        },
        (
            "Unschedulable",
            f"pod demo-6d5f-x7k2p has no node: 0/2 nodes are available: 2 {OTHER_LABELS}. The accelerator needs nodes with the label nvidia.com/gpu.product in (A100-MIG-1g.10gb, H100-MIG-1g.10gb)",
        ),
    ),
    "no node can serve the claim": (
        {
            "resource": manifests.resource(accelerator={"strategy": "dra"}),
            "children": NOT_READY,
            "pods": [unscheduled("0/1 nodes are available: 1 cannot allocate all claims.")],
        },
        (
            "AcceleratorUnavailable",
            "pod demo-6d5f-x7k2p has no node: no node can give what the claim asks for: 0/1 nodes are available: 1 cannot allocate all claims.",
        ),
    ),
    "no node fits a pod with a claim for another reason": (
        {
            "resource": manifests.resource(accelerator={"strategy": "dra"}),
            "children": NOT_READY,
            "pods": [unscheduled("0/1 nodes are available: 1 Insufficient cpu.")],
        },
        ("Unschedulable", "pod demo-6d5f-x7k2p has no node: 0/1 nodes are available: 1 Insufficient cpu."),
    ),
    "no node fits for another reason": (
        {"children": NOT_READY, "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.")]},
        ("Unschedulable", "pod demo-6d5f-x7k2p has no node: 0/3 nodes are available: 3 Insufficient memory."),
    ),
    "a node may be on its way": (
        {
            "resource": manifests.resource(**MIG),
            "children": NOT_READY,
            "pods": [unscheduled(NO_NODE, since=ago(minutes=9))],
            "facts": manifests.facts(node_resources={"cpu": 64}),
        },
        (
            "WaitingForNode",
            "pod demo-6d5f-x7k2p waits for a node: no node offers nvidia.com/mig-1g.10gb; no node offers any accelerator (is the device plugin running?)",
        ),
    ),
    "a node makes room": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.", since=ago(minutes=1), nominatedNodeName="n1")],
        },
        (
            "WaitingForNode",
            "pod demo-6d5f-x7k2p waits for node n1, which is to make room: 0/3 nodes are available: 3 Insufficient memory.",
        ),
    ),
    "an autoscaler adds a node": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.", since=ago(minutes=12))],
            "facts": manifests.facts(scale_ups={POD: scale_up("[{gpus 1->2 (max: 5)}]", is_coming=True)}),
        },
        (
            "WaitingForNode",
            "pod demo-6d5f-x7k2p waits for a node that is coming (cluster-autoscaler: [{gpus 1->2 (max: 5)}]): 0/3 nodes are available: 3 Insufficient memory.",
        ),
    ),
    "an autoscaler adds no node": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.", since=ago(minutes=12))],
            "facts": manifests.facts(scale_ups={POD: scale_up("1 max node group size reached", is_coming=False)}),
        },
        (
            "Unschedulable",
            "pod demo-6d5f-x7k2p has no node: 0/3 nodes are available: 3 Insufficient memory; cluster-autoscaler adds no node: 1 max node group size reached",
        ),
    ),
    "an autoscaler adds no node for now": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.", since=ago(minutes=1))],
            "facts": manifests.facts(scale_ups={POD: scale_up("1 in backoff after failed scale-up", is_coming=False)}),
        },
        (
            "WaitingForNode",
            "pod demo-6d5f-x7k2p waits for a node: 0/3 nodes are available: 3 Insufficient memory; cluster-autoscaler adds no node: 1 in backoff after failed scale-up",
        ),
    ),
    "a claim is missing, which no new node provides": (
        {
            "children": NOT_READY,
            "pods": [unscheduled('0/3 nodes are available: persistentvolumeclaim "models" not found.', since=ago(seconds=1))],
        },
        ("Unschedulable", 'pod demo-6d5f-x7k2p has no node: 0/3 nodes are available: persistentvolumeclaim "models" not found.'),
    ),
    "a queue holds the pod back": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("Scheduling is blocked due to non-empty scheduling gates", reason="SchedulingGated")],
        },
        (
            "SchedulingGated",
            "pod demo-6d5f-x7k2p is not scheduled until its scheduling gates are removed (a queue such as Kueue sets them)",
        ),
    ),
    "a queue holds the pod back for longer than models may take to load": (
        {
            "children": {("Deployment", "demo"): deployment(ready=1, conditions=[TOO_LONG])},
            "pods": [unscheduled("Scheduling is blocked due to non-empty scheduling gates", reason="SchedulingGated")],
        },
        (
            "SchedulingGated",
            "pod demo-6d5f-x7k2p is not scheduled until its scheduling gates are removed (a queue such as Kueue sets them)",
        ),
    ),
}  # fmt: skip
