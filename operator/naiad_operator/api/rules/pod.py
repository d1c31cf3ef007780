"""The validation rules of the other parts of a pod: environment, ports, resources, placement."""

from naiad_operator.api.rules.rule import Rule

RESOURCES = tuple(
    Rule(
        cel=f"!has(self.{field}) || self.{field}.all(name, !name.startsWith('nvidia.com/'))",
        message="GPUs are requested in predictor.accelerator, e.g. type: mig with profile: 1g.10gb: leave nvidia.com/ out here",
        field=field,
    )
    for field in ("requests", "limits")
)

ENV = (
    Rule(
        cel="!(has(self.value) && has(self.valueFrom))",
        message="a variable has a value or a valueFrom: leave one of them out",
        field="valueFrom",
    ),
)

TOLERATION = (
    Rule(
        cel="self.operator == 'Exists' ? !has(self.value) : has(self.key)",
        message="operator: Exists takes no value, operator: Equal needs a key",
        field="operator",
    ),
)

PORTS = (
    Rule(
        cel="self.http != self.grpc && self.http != self.metrics && self.grpc != self.metrics",
        message="http, grpc and metrics need three different ports",
    ),
)

READINESS = (
    Rule(
        cel="has(self.models) == (self.policy == 'models')",
        message="models are the ones that policy: models waits for: write both, or neither",
        field="models",
    ),
)
