"""The validation rules between fields, in one module per module of `types`.

Each rule is written once, in CEL. The API server evaluates it when a resource is applied; `cel` translates it to Python for
`naiad-operator check` and for resources that were stored before the rule existed. A rule uses only what `cel` supports, tests optional
fields with `has` first, and says in `message` what to write instead, in one sentence without a full stop. `field` is where the error
is shown. Each rule has a manifest in tests/operator/api/rules/cases that breaks it, which the tests send to an API server.
"""
