"""The validation rules of a profile's policy."""

from naiad_operator.api.rules.rule import Rule

NAMESPACES = (
    Rule(
        cel="has(self.names) || has(self.selector)",
        message="write the namespaces that the profile binds: names, or a selector of their labels, which is {} for all",
    ),
)

REQUIREMENT = (
    Rule(
        cel="has(self.values) == (self.operator in ['In', 'NotIn'])",
        message="In and NotIn compare the label with values, Exists and DoesNotExist have none",
        field="values",
    ),
)
