"""What a framework says of a failure, as one line that begins with the reason: for messages of models that cannot be loaded and of requests that fail.

Frameworks put their reason behind, or between, what is of no use to who runs a server: places in their own C++ sources, stack traces, lists of
allocated memory. What is known to help is added. Pure: a framework is known by its texts.
"""

import re

LONGEST = 2_000
"""Characters of a message that are kept: some frameworks list a whole graph."""

_READ = 10_000
"""Characters of a text that are read from its beginning and from its end: a model's own code may raise megabytes, and the reason is at one of the ends."""

_PLACES = (
    (r"^[^\w\n]*Exception from \S+:\d+:\s*$", ""),  # OpenVINO
    (r"Check '[^\n]*' failed at \S+:\d+:\s*\n", ""),
    (r"\[enforce fail at \S+:\d+\] (?:[^.\n]* )?\. ", ""),  # torch
    (r"\[enforce fail at \S+:\d+\] [^.\n]*\. ", ""),
    (r"\n[^\n]*\n~*\^~*\s*$", ""),  # treelite: a piece of the file
    (r"^Exception raised from .*", ""),
    (r"^frame #\d+: .*", ""),
    (r"^Graph execution error:\s*$", ""),  # TensorFlow
    (r"^Hint: If you want to see a list of allocated tensors.*", ""),
    (r"\bon /job:\S+/device:(\w+:\d+) by allocator \w+", r"on \1"),
    (r"\b\w+\.(?:cc|h):\d+ \w+ (?=[A-Z'])", ""),  # onnxruntime, beside `_RUNTIME_SOURCE`
    (r"\bLoad model from [^\n]* failed: *", ""),
    (r" If it's a custom op/custom triton op, .*", ""),  # torch.export
    (r" in binary running on \S+\. Make sure the Op and Kernel .*", ""),
)
"""Pattern and what takes its place, in the order in which they are applied."""

_STACK = "\n\nOriginal stack trace"
"""What begins a stack of TensorFlow behind the reason."""

_NODE_STACK = re.compile(
    r"Detected at node [^\n]*\n(?:<stack traces unavailable>\n|.*?^Node: '[^'\n]*'\n)",
    re.MULTILINE | re.DOTALL,
)
"""A stack of TensorFlow before the reason."""

_SCRIPT_STACK = "Traceback of TorchScript"
_SCRIPT_LINE = re.compile(r'File "([^"\n]+)", line (\d+)(?:, in (\w+))?')
_SCRIPT_ERROR = re.compile(r"^(?:builtins\.|torch\.jit\.)?(\w+): (.*)", re.MULTILINE | re.DOTALL)
_PLAIN_ERRORS = frozenset(("RuntimeError", "Error"))
_HERE = "<--- HERE"

_LONGEST_SIGNATURE = 1_000
_RUNTIME_SOURCE = re.compile(r"/onnxruntime_src/\S+:\d+ ")

_NO_MEMORY = re.compile(
    r"\bbad_alloc\b|\bMemoryError\b|\bfailed to allocate memory|can't allocate memory|\bcannot allocate memory|\bnot enough memory"
    r"|\bOOM when allocating|\bout of memory\b|\bunable to allocate \S+ \wiB|\bcan not clone Dnnl|\binvalid buffer size",
    re.IGNORECASE,
)
_UNKNOWN_OPERATOR = re.compile(
    r"is not a registered function/op|No Op registered for|Unknown builtin op|Unknown type name '__torch__\.torch\.classes"
    r"|Current official support for domain|Unsupported model IR version"
    r"|doesn't contain the operation with type|from unsupported opset|Op type not registered|failed to resolve \S+ to an operator"
)

MEMORY_HELP = "there is not so much memory: lower max_batch_size or the count of instances, send smaller requests, or give the server more"


def said(error: BaseException) -> str:
    """What an exception of a framework says, in one line of at most `LONGEST` characters, with its reason first; the exception's name if it says nothing."""
    own = getattr(error, "message", None)  # TensorFlow's, without the node
    text = (own if isinstance(own, str) and own else _text(error)) or ""
    line = one_line(text)
    if isinstance(error, KeyError) and line:
        return f"KeyError: {line}"  # its text is the key alone
    if isinstance(error, MemoryError) and "memory" not in line.lower():
        return f"out of memory ({line})" if line else "out of memory"
    return line or type(error).__name__


def explained(error: BaseException, *, operators: str = "") -> str:
    """`said`, and what to do where that is known.

    Args:
        error: the exception.
        operators: what a user does whose model has an operator that the framework does not know.
    """
    line = said(error)
    if _NO_MEMORY.search(line):
        return f"{line}: {MEMORY_HELP}"
    if operators and _UNKNOWN_OPERATOR.search(line):
        return f"{line.rstrip('.')}: {operators}"
    return line


def one_line(text: str) -> str:
    """A framework's text as one line, without what is only about its own sources, and with its reason first."""
    if len(text) > 2 * _READ:
        text = f"{text[:_READ]}\n{text[-_READ:]}"
    text = _NODE_STACK.sub("", text.partition(_STACK)[0])
    if _SCRIPT_STACK in text:
        text = _of_script_run(text)
    elif _HERE in text:
        text = _of_script_code(text)
    text = _without_runtime_sources(text)
    for pattern, instead in _PLACES:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} …"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - such as bytes of a damaged file that are not text
        return f"{type(error).__name__}, whose text cannot be read"


def _of_script_run(text: str) -> str:
    """The error of a run of TorchScript: the reason stands behind the stack, whose last line is where it was raised."""
    places = _SCRIPT_LINE.findall(text)
    last_mark = text.rfind(_HERE)
    tail = text[text.find("\n", last_mark) + 1 :] if last_mark >= 0 else text
    found = _SCRIPT_ERROR.search(tail)
    if found is None:
        return text
    name, reason = found.groups()
    said_as = reason if name in _PLAIN_ERRORS else f"{name}: {reason}"
    return f"{said_as.strip()}{_place(places)}"


def _of_script_code(text: str) -> str:
    """The error of code that TorchScript does not take: the reason stands before the place and the code."""
    places = _SCRIPT_LINE.findall(text)
    reason = _SCRIPT_LINE.split(text, maxsplit=1)[0].strip().rstrip(":").strip()
    return f"{reason}{_place(places)}" if reason else text


def _place(places: "list[tuple[str, str, str]]") -> str:
    if not places:
        return ""
    path, line, function = places[-1]
    return f" (at {path}:{line}" + (f" in {function})" if function else ")")


def _without_runtime_sources(text: str) -> str:
    """The text without the places in onnxruntime's sources, each followed by the signature of a function."""
    while found := _RUNTIME_SOURCE.search(text):
        end = _signature_end(text, found.end())
        text = text[: found.start()] + text[end:].lstrip()
    return text


def _signature_end(text: str, begin: int) -> int:
    """Where the signature that begins there ends; `begin` if there is none."""
    line_end = text.find("\n", begin)
    at = text.find("(", begin, line_end if line_end >= 0 else len(text))
    if at < 0:
        return begin
    depth = 0
    last = min(len(text), at + _LONGEST_SIGNATURE)
    while at < last:
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
        if depth == 0:
            break
    else:
        return begin
    rest = re.compile(r"(?: const)?(?: \[with [^\]]*\])?").match(text, at)
    return rest.end() if rest else at
