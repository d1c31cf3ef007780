"""The translation of CEL to Python gives what a complete implementation of CEL gives, and rejects what it does not translate."""

import typing

import cel
import pytest

from naiad_operator.api.rules.cel import CelError, compiled

TRUE = [
    "has(self.a) ? self.a == 1 : self.b == 2",
    "has(self.c) ? false : has(self.d) ? false : true",
    "(has(self.c) ? self.c : 4) > (has(self.b) ? self.b : 1)",
    "!has(self.c) && self.a == 1 || has(self.c) && self.c == 1",
    "!self.off && self.on == true",
    "!(self.a == 1 && self.b == 1)",
    "self.a + self.b - 1 <= 2 && self.a != self.b && self.b >= 2 && self.a < self.b",
    "self.class in ['hpa', 'keda'] && 'key' in self.map && !('other' in self.map)",
    "size(self.list) == 2 && size(self.class) == 3 && size(self.map) == 1",
    "self.list.all(x, x.startsWith('a')) && self.list.exists(x, x == 'ab') && self.list.exists_one(x, x.matches('^a$'))",
    "self.map.all(name, !name.startsWith('nvidia.com/'))",
    "self.list.all(x, self.list.exists_one(y, x == y))",
    "self.part.from.with == 'then' && has(self.part.from.with)",
    "self.text.matches('^1\\\\.5$') && self.text.contains('.')",
    "self.quote == '\\'' && self.backslash == '\\\\'",
    "'? : && || !' == self.symbols",
]
SELF: dict[str, typing.Any] = {
    "a": 1, "b": 2, "on": True, "off": False, "class": "hpa", "map": {"key": "1"}, "list": ["a", "ab"], "text": "1.5",
    "part": {"from": {"with": "then"}}, "quote": "'", "backslash": "\\", "symbols": "? : && || !",
}  # fmt: skip


@pytest.mark.parametrize("rule", TRUE)
def test_a_translated_expression_has_the_value_that_it_has_in_cel(rule: str) -> None:
    assert cel.evaluate(rule, {"self": SELF}) is True
    assert compiled(rule)(SELF) is True
    assert compiled(f"!({rule})")(SELF) is False


@pytest.mark.parametrize(
    "rule",
    [
        "self.list.map(x, x)",
        "self.a % 2 == 1",
        "self.a == 1 == true",
        "self.text.matches('\\d')",
        'self.text == "1.5"',
        "self.list[0] == 'a'",
        "self.text.upperAscii() == 'A'",
        "quantity(self.text)",
        "self.a ==",
        "self.a = 1",
        "lambda: 1",
        "self.a; self.b",
    ],
)
def test_what_is_not_supported_is_rejected_and_not_evaluated_as_something_else(rule: str) -> None:
    with pytest.raises(CelError):
        compiled(rule)


def test_a_pattern_ends_at_the_very_end() -> None:
    assert not compiled("self.matches('^a$')")("a\n")
