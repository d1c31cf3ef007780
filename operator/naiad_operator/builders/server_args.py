"""Reads arguments of the server as the server does, and finds those that it would refuse. Pure.

The rules are those of its own parser: `--flag value` and `--flag=value` both work, a boolean may stand alone, and the beginning of a name
is enough where only one option has it. tests/seams compares the verdicts of both.
"""

import collections.abc
import difflib
import math
import typing

from naiad_operator.builders.server_flags import FLAGS, Flag

EVERY_ADDRESS = frozenset(("", "0.0.0.0", "ipv4:0.0.0.0", "::", "[::]", "ipv6:::", "ipv6:[::]"))  # noqa: S104 - compared, not bound
"""The addresses for all of a pod, in every form that the server takes."""

_TRUE = frozenset(("true", "on", "1"))
_FALSE = frozenset(("false", "off", "0"))
OWNED = {
    "http-port": "predictor.ports.http",
    "grpc-port": "predictor.ports.grpc",
    "metrics-port": "predictor.ports.metrics",
    "shutdown-delay-secs": "predictor.drainSeconds",
    "exit-timeout-secs": "predictor.terminationGracePeriodSeconds",
    "auth-token-file": "spec.auth",
    "http-base-path": "spec.pathPrefix",
}
"""Options that only the operator may write, and the field from which it does."""

_COMMANDS = frozenset(("tritonserver", "naiad", "serve", "naiad-server"))


class Argument(typing.NamedTuple):
    """One option of a list of arguments, or a word that is not an option.

    Attributes:
        position: where it begins in the list.
        words: the words that it consists of, one or two.
        name: the option's full name without dashes; "" for an unknown one.
        value: its value; "true" for a boolean that stands alone.
        unknown: why the server does not know it, and what to write instead; "" for an option of the server.
        wrong: why the server refuses its value, and what to write instead; "" for a valid one.
        near: the option that an unknown one may be meant to be; "" for none.
    """

    position: int
    words: tuple[str, ...]
    name: str = ""
    value: str = ""
    unknown: str = ""
    wrong: str = ""
    near: str = ""

    @property
    def flag(self) -> Flag:
        """The option; only for a known one."""
        return FLAGS[self.name]

    @property
    def written(self) -> str:
        """The option as one word."""
        return f"--{self.name}={self.value}" if self.name else " ".join(self.words)


def read(words: collections.abc.Sequence[str]) -> collections.abc.Iterator[Argument]:
    """Every argument, in its order; after a wrong one the next is read as well."""
    index = 0
    while index < len(words):
        argument = _read(words, index)
        yield argument
        index += len(argument.words)


def _read(words: collections.abc.Sequence[str], index: int) -> Argument:
    word = words[index]
    following = words[index + 1 : index + 2]
    if not word.startswith("--") or word == "--":
        return Argument(index, (word,), unknown=_not_an_option(word))
    name, equals, value = word[2:].partition("=")
    full, unknown = find(name)
    if unknown:
        has_value = not equals and following and not following[0].startswith("-")
        given = (word, *following) if has_value else (word,)
        return Argument(index, given, unknown=unknown, near=_near(name))
    flag = FLAGS[full]
    given = (word,)
    if not equals and flag.kind == "boolean":
        value = "true"
        if following and following[0].lower() in _TRUE | _FALSE:
            given, value = (word, following[0]), following[0]
    elif not equals and not following:
        message = f"--{full} needs a value ({flag.kind}): write --{full}=VALUE"
        return Argument(index, given, full, wrong=message)
    elif not equals:
        given, value = (word, following[0]), following[0]
    return Argument(index, given, full, value, wrong=refusal(full, value))


def find(name: str) -> tuple[str, str]:
    """The full name of an option, or why there is none."""
    if name in FLAGS:
        return name, ""
    longer = [other for other in FLAGS if other.startswith(name)] if name else []
    if len(longer) == 1:
        return longer[0], ""
    if longer:
        could_be = ", ".join(f"--{other}" for other in longer)
        return "", f"--{name} is ambiguous: it could be {could_be}"
    first, blank, rest = name.partition(" ")
    if blank and first in FLAGS:
        return "", f"'--{name}' is one word: write --{first}={rest.strip()}"
    near = _near(name)
    hint = f"did you mean --{near}?" if near else "naiad serve --help-all lists all options"
    return "", f"the server has no option --{name}: {hint}"


def _near(name: str) -> str:
    return next(iter(difflib.get_close_matches(name.replace("_", "-"), FLAGS, n=1)), "")


def _not_an_option(word: str) -> str:
    name, equals, value = word.lstrip("-").partition("=")
    if word in _COMMANDS:
        return f"{word!r} is the command, which the operator writes: leave it out, args are options only"
    full, unknown = find(name)
    if not unknown and name:
        return f"{word!r}: options begin with two dashes: write --{full}{equals}{value}"
    return (
        f"{word!r} is not an option: options begin with two dashes, and a value follows its option"
    )


def refusal(name: str, value: str) -> str:
    """Why the server refuses a value of an option; "" when it takes it. A variable's value is known only in the pod."""
    if "$(" in value:
        return ""
    flag = FLAGS[name]
    if flag.missing:
        if value.lower() in flag.harmless:
            return ""
        return f"--{name}={value}: the server does not support {flag.missing} yet: leave it out"
    expected = _expected(flag, name, value)
    return f"--{name}={value}: expected {expected}" if expected else ""


def _expected(flag: Flag, name: str, value: str) -> str:
    """What the server expects in place of a value; "" for a valid one."""
    if name == "metrics-config":
        return _expected_metrics(value)
    if flag.choices:
        return "" if value in flag.choices else f"one of {', '.join(flag.choices)}"
    if flag.kind == "boolean":
        return "" if value.lower() in _TRUE | _FALSE else "true, on, 1, false, off or 0"
    return "" if flag.kind == "string" else _expected_number(flag, value)


def _expected_number(flag: Flag, value: str) -> str:
    try:
        number = int(value) if flag.kind == "integer" else float(value)
    except ValueError:
        return "an integer" if flag.kind == "integer" else "a number"
    if not math.isfinite(number):
        return "a finite number"
    if flag.minimum is not None and number < flag.minimum:
        return f"at least {flag.minimum:g}"
    too_large = flag.maximum is not None and number > flag.maximum
    return f"at most {flag.maximum}" if too_large else ""


def _expected_metrics(value: str) -> str:
    """The server logs settings that it does not know or support."""
    name, equals, setting = value.partition("=")
    key = name.rpartition(",")[2]  # a group may stand before it
    if not equals or not key:
        return "KEY=VALUE"
    if key == "counter_latencies" and setting.lower() not in _TRUE | _FALSE:
        return "counter_latencies=true or counter_latencies=false"
    return ""
