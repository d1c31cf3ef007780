"""Masks the credentials in a manifest, or in any JSON, by its structure. Pure.

These are: environment variables, options, headers and fields whose name announces a credential, the data of Secrets and ConfigMaps, and
annotations that repeat a whole manifest. Every other text is masked by its form.
"""

import json
import re
import typing

from naiad_operator.report import patterns
from naiad_operator.report.patterns import MASK

Object = dict[str, typing.Any]

_DATA_KINDS = ("Secret", "ConfigMap")
_DATA_FIELDS = ("data", "stringData", "binaryData")
_REPEATED = re.compile(
    r"last-applied-configuration$|^serving\.naiad\.dev/template$|^objectset\.rio\.cattle\.io/applied$"
)
"""Annotations that hold a whole manifest, the last two compressed."""
_TEXTS_OF_PARAMETERS = ("string_value", "stringValue")
_USER_OPTIONS = ("-u", "--user", "--proxy-user")
_RESTRICTIONS = re.compile(r"--(?:http|grpc)-restricted-(?:api|protocol)")


class Structure:
    """Masks structures.

    Args:
        found: is called with each credential.
    """

    def __init__(self, found: patterns.Found = lambda _: None) -> None:
        self._found = found

    def value(self, value: typing.Any, field: str = "") -> typing.Any:
        """A value without credentials.

        Args:
            value: as JSON has it.
            field: the name of the field that it is in.
        """
        match value:
            case dict():
                return self._fields(value)
            case list():
                return self._list(value, field)
            case str():
                if patterns.field_announces_credential(field):
                    return self._credential(field, value)
                return self._plain(value)
            case bool() | None:
                return value
            case _:
                announced = patterns.field_announces_credential(field)
                return MASK if announced and not patterns.says_nothing(field, str(value)) else value

    def _fields(self, fields: Object) -> Object:
        made: Object = {}
        for name, value in fields.items():
            is_data = fields.get("kind") in _DATA_KINDS and name in _DATA_FIELDS
            if is_data or (_is_parameter(value) and patterns.announces_credential(str(name))):
                made[name] = self._hidden(value)
            elif name == "annotations" and isinstance(value, dict):
                made[name] = {key: self._annotation(key, text) for key, text in value.items()}
            else:
                made[name] = self.value(value, str(name))
        if "value" in fields:
            made["value"] = self._of_pair(fields, made["value"])
        return made

    def _of_pair(self, fields: Object, masked: typing.Any) -> typing.Any:
        """The value of a variable, a header or a parameter: `{name, value}`, or `{key, value}` as in Triton's parameters."""
        name, value = fields.get("name"), fields["value"]
        if name is None and not {"operator", "effect"} & fields.keys():
            name = fields.get("key")
        if not isinstance(name, str) or not patterns.announces_credential(name):
            return masked
        if isinstance(value, str) and value:
            return self._credential(name, value)
        return self._hidden(value) if value else value

    def _list(self, items: list[typing.Any], field: str) -> list[typing.Any]:
        if not all(isinstance(item, str) for item in items):
            return [self.value(item) for item in items]
        match items:
            case [name, value] if not field and patterns.announces_credential(name):
                return [name, self._credential(name, value)]  # a header in a list of headers
        made: list[str] = []
        before = ""
        for item in items:
            made.append(self._argument(before, item, field))
            before = item
        return made

    def _argument(self, before: str, item: str, field: str) -> str:
        """One argument of a command; an option may be the one before it."""
        if patterns.field_announces_credential(field):
            return self._credential(field, item)
        name, is_set, value = item.partition("=")
        if is_set and name.startswith("-") and patterns.announces_credential(name):
            return f"{name}={self._credential(name, value)}" if value else item
        if before.startswith("-") and "=" not in before and not item.startswith("-"):
            if _RESTRICTIONS.fullmatch(before):
                return patterns.masked(f"{before}={item}", self._found).removeprefix(f"{before}=")
            if before in _USER_OPTIONS and ":" in item:
                return f"{item.partition(':')[0]}:{self._credential('', item.partition(':')[2])}"
            if patterns.announces_credential(before):
                return self._credential(before, item)
        return self._plain(item)

    def _annotation(self, name: str, text: typing.Any) -> typing.Any:
        if _REPEATED.search(name):
            return MASK
        if not isinstance(text, str):
            return self.value(text, name)
        if patterns.field_announces_credential(name):
            return self._credential(name, text)
        return self._plain(text)

    def _plain(self, text: str) -> str:
        """A text that nothing announces: JSON is masked by its structure."""
        stripped = text.strip()
        if stripped.startswith(("{", "[")):
            try:
                content = json.loads(stripped)
            except (ValueError, RecursionError):
                pass
            else:
                return json.dumps(self.value(content), ensure_ascii=False)
        return patterns.masked(text, self._found)

    def _credential(self, name: str, value: str) -> str:
        if not value or value == MASK or patterns.is_location(name, value):
            return value
        if patterns.says_nothing(name, value):
            return value
        self._found(value)
        return MASK

    def _hidden(self, value: typing.Any) -> typing.Any:
        """The value with every text in it masked."""
        match value:
            case dict():
                return {key: self._hidden(each) for key, each in value.items()}
            case list():
                return [self._hidden(each) for each in value]
            case str():
                return self._credential("", value)
            case bool() | None:
                return value
            case _:
                return MASK


def _is_parameter(value: typing.Any) -> bool:
    """Whether a value is that of a parameter in a Triton config: `{string_value: …}`."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _TEXTS_OF_PARAMETERS
