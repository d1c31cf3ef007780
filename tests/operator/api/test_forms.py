"""A text that has not the form of its field is answered in words, not with a regular expression."""

import collections.abc
import typing

import pytest

from naiad_operator.api.parsing import forms
from naiad_operator.api.schema import openapi, resources


def patterns(schema: typing.Any) -> collections.abc.Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for part in schema.values():
            yield from patterns(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from patterns(part)


@pytest.mark.parametrize("resource", [resources.SERVICE, resources.PROFILE])
def test_every_pattern_of_the_schema_has_words(resource: resources.CustomResource) -> None:
    found = set(patterns(openapi.schema_of(resource.spec)))
    assert found
    assert found <= forms.FORMS.keys()
