"""DALI's errors in few words: which operator failed and why, without the places in DALI's sources and in the file that made the pipeline. Pure."""

import re

_OPERATOR = re.compile(r"Error in \w+ operator `([^`]+)`")
_NOISE = re.compile(
    r"^(C\+\+ context: .*|Current pipeline object is no longer valid\.|Stacktrace.*)$", re.MULTILINE
)
_HEAD = re.compile(r"^Critical error [^\n]*:\s*")
_ENCOUNTERED = "encountered:"

_MOST = 600
"""Characters of a reason."""


def reason_of(error: BaseException) -> str:
    """What DALI says was wrong, on one line: the operator first, where it names one."""
    text = str(error)
    operator = _OPERATOR.search(text)
    said = text.rpartition(_ENCOUNTERED)[2] if _ENCOUNTERED in text else _HEAD.sub("", text)
    said = _NOISE.sub("", said.partition("\nStacktrace")[0])
    line = " ".join(said.split())
    if len(line) > _MOST:
        line = line[:_MOST] + " …"
    line = line or type(error).__name__
    return f"{operator.group(1)}: {line}" if operator else line
