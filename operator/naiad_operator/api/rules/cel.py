"""Translates the part of CEL (Common Expression Language) in which the validation rules are written to Python functions.

CEL and Python expressions have the same grammar up to the spelling of a few operators: `c ? a : b` is parsed as Python's `c if a else b`,
and `!` as `~`, which has the same precedence. So Python's own parser reads a rule, and the tree is written as Python. Supported are `has`, `size`,
`matches`, `startsWith`, `contains`, `all`, `exists`, `exists_one`, comparisons, `in`, `+`, `-`, integers, lists, and strings in single
quotes; everything else is rejected. Unlike in CEL, `&&` and `||` do not ignore an error of their left side, so test with `has` first.
"""

import ast
import collections.abc
import functools
import keyword
import re
import typing

_TOKEN = re.compile(r"'(?:[^'\\]|\\['\\])*'|\w+|&&|\|\||[=!<>]=|[-+!<>?:.,()\[\]\s]")
_SPELLINGS = {
    "&&": " and ",
    "||": " or ",
    "!": "~",
    "?": " if ",
    ":": " else ",
    "true": "True",
    "false": "False",
}
_COMPARISONS: dict[type[ast.cmpop | ast.operator], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in", ast.Add: "+", ast.Sub: "-",
}  # fmt: skip
_MACROS = {
    "all": "all({condition} for {variable} in {items})",
    "exists": "any({condition} for {variable} in {items})",
    "exists_one": "sum(bool({condition}) for {variable} in {items}) == 1",
}


class CelError(ValueError):
    """A rule that is not valid CEL, or uses an unsupported part of it."""


def matches(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern as in the API server: `$` is the very end, also when a line break precedes it."""
    return _pattern(pattern).search(text) is not None


@functools.cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("$", r"\Z"), re.ASCII)


_METHODS = {"matches": matches, "startsWith": str.startswith, "contains": str.__contains__}
_NAMES = {
    "__builtins__": {},
    "all": all,
    "any": any,
    "bool": bool,
    "len": len,
    "sum": sum,
    **_METHODS,
}


@functools.cache
def compiled(rule: str) -> collections.abc.Callable[[typing.Any], bool]:
    """The rule as a function of `self`.

    Raises:
        CelError: the rule is not supported.
    """
    tokens = _TOKEN.findall(rule)
    if "".join(tokens) != rule:
        raise CelError(f"a character is not supported in {rule}")
    spelled = (
        f"{token}_" if _is_reserved(token) else _SPELLINGS.get(token, token) for token in tokens
    )
    try:
        tree = ast.parse("".join(spelled).strip(), mode="eval")
    except SyntaxError as error:
        raise CelError(f"is not valid: {rule}") from error
    return eval(f"lambda self: {_python(tree.body)}", _NAMES)  # type: ignore[no-any-return] # noqa: S307 - a constant of this package


def _is_reserved(name: str) -> bool:
    """Whether Python, unlike CEL, reserves the name."""
    return keyword.iskeyword(name) and name != "in"


def _python(node: ast.expr) -> str:  # noqa: C901, PLR0911, PLR0912 - one branch per kind of expression
    """An expression of CEL, parsed as Python, in Python."""
    match node:
        case ast.Name(name):
            return name
        case ast.Constant(str() | int() as value):
            return repr(value)
        case ast.List(items):
            return f"[{', '.join(map(_python, items))}]"
        case ast.Attribute(value, field):
            return f"{_python(value)}[{field.removesuffix('_')!r}]"
        case ast.BoolOp(operator, values):
            word = " and " if isinstance(operator, ast.And) else " or "
            return f"({word.join(map(_python, values))})"
        case ast.UnaryOp(ast.Invert(), value):
            return f"(not {_python(value)})"
        case ast.IfExp(body=condition, test=yes, orelse=no):
            return f"({_python(yes)} if {_python(condition)} else {_python(no)})"
        case ast.Compare(left, [operator], [right]) | ast.BinOp(left, operator, right):
            if type(operator) in _COMPARISONS:
                return f"({_python(left)} {_COMPARISONS[type(operator)]} {_python(right)})"
        case ast.Call(ast.Name("has"), [ast.Attribute(value, field)]):
            return f"({field.removesuffix('_')!r} in {_python(value)})"
        case ast.Call(ast.Name("size"), [value]):
            return f"len({_python(value)})"
        case ast.Call(ast.Attribute(value, macro), [ast.Name(variable), condition]) if (
            macro in _MACROS
        ):
            filled = _MACROS[macro].format(
                condition=_python(condition), variable=variable, items=_python(value)
            )
            return f"({filled})"
        case ast.Call(ast.Attribute(value, method), [argument]) if method in _METHODS:
            return f"{method}({_python(value)}, {_python(argument)})"
    raise CelError(f"is not supported: {ast.unparse(node)}")
