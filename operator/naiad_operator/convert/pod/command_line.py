"""Finds the server's arguments in a container's command and args, also inside a shell script. Pure."""

import collections.abc
import pathlib
import re
import shlex
import typing

_SHELLS = frozenset(("sh", "bash", "ash", "dash"))
_SERVER = "tritonserver"
_HARMLESS = frozenset(("nvidia_entrypoint.sh", "exec", "nohup", "tini", "dumb-init", "--", "-g"))
"""Words before the server that change nothing here."""
_IGNORED = frozenset(
    ("set", "ldconfig", "echo", "true", "wait", "date", "nvidia-smi", "sleep", "cd", "tee", "trap", "kill", ":")
)  # fmt: skip
"""Commands of a script that a service needs none of."""
_CONTROL = frozenset(
    ("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "{", "}")
)  # fmt: skip
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?[-=]([^}]*))?\})"
)
_OWN_VARIABLE = re.compile(r"\$[!?$#0-9-]")
"""What only a running shell knows, e.g. the status of a command."""
_PROCESS = "$!"
"""The process that a shell started last: the server, for which a script waits."""
_SEVERAL_OPTIONS = re.compile(r"--\S.*\s--[a-z]", re.DOTALL)
"""A word that is meant to be several options."""
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
"""What the shell replaces with the output of a command."""
_OPEN, _CLOSE, _BLANK = "\ue000", "\ue001", "\ue002"
"""Such a command as part of one word; characters for private use."""
_PIP_FLAGS = frozenset(
    ("--no-cache-dir", "--upgrade", "-U", "-q", "--quiet", "--user", "--no-input", "--break-system-packages",
     "--disable-pip-version-check", "--no-deps")
)  # fmt: skip


class CommandLine(typing.NamedTuple):
    """What a container starts.

    Attributes:
        arguments: those of the server; None when no server is found.
        variables: environment variables that a script sets.
        requirements: Python packages that a script installs first.
        others: what else is done, which a service does not do; each a command with what to do instead.
        start: the position of the first argument among the words; None when a script has them.
    """

    arguments: list[str] | None
    variables: dict[str, str]
    requirements: list[str]
    others: list[str]
    start: int | None = None


def read(
    words: collections.abc.Sequence[str], known: collections.abc.Collection[str] = ()
) -> CommandLine:
    """Reads the words of `command` and `args`.

    Args:
        words: both lists, one after the other.
        known: the names of the container's environment variables, which a script may use.
    """
    found = CommandLine([], {}, [], [])
    for index, word in enumerate(words):
        name = pathlib.PurePath(word).name
        if name in _SHELLS:
            options = [one for one in words[index + 1 :] if one.startswith("-")]
            scripts = [one for one in words[index + 1 :] if not one.startswith("-")]
            if scripts and any("c" in one for one in options):
                script = words.index(scripts[0], index)
                return _with_parameters(words[script], words[script + 1 :], known)
        first, *others = word.split() or [""]
        if others and pathlib.PurePath(first).name == _SERVER:
            # A whole command line as one word: no program has such a name, so that it is meant as several.
            line = " ".join([word, *map(shlex.quote, words[index + 1 :])])
            return _script(_without_kubernetes(line, known), {*known})
        if name == _SERVER:
            found.others.extend(_before(words[:index]))
            return _with_arguments(found, words, index + 1)
        if word.startswith("--") and index == 0:
            return _with_arguments(found, words, 0)
    others = [_unknown(" ".join(words))] if words else []
    return found._replace(arguments=None, others=others)


def _with_arguments(
    found: CommandLine, words: collections.abc.Sequence[str], start: int
) -> CommandLine:
    """The words from a position on as arguments; one that is meant to be several options is divided."""
    arguments = words[start:]
    divided = [
        part
        for word in arguments
        for part in (word.split() if _SEVERAL_OPTIONS.match(word) else [word])
    ]
    same = len(divided) == len(arguments)
    return found._replace(arguments=divided, start=start if same else None)


def _with_parameters(
    script: str, parameters: collections.abc.Sequence[str], known: collections.abc.Collection[str]
) -> CommandLine:
    """Reads a script, and the words behind it: the first is its $0, and "$@" stands for the others."""
    script = _without_kubernetes(script, known)
    quoted = " ".join(shlex.quote(one) for one in parameters[1:])
    used = _ALL_PARAMETERS.search(script) is not None
    found = _script(_ALL_PARAMETERS.sub(lambda _: quoted, script), {*known})
    if parameters and not used:
        found.others.append(
            f"{' '.join(parameters)}: the shell runs only the first word behind -c, and these are its parameters, so that the server never got them: write those that it needs in predictor.args"
        )
    return found


_ALL_PARAMETERS = re.compile(r"""(["']?)\$[@*]\1""")


def _without_kubernetes(script: str, known: collections.abc.Collection[str]) -> str:
    """A script with ${NAME} for $(NAME): the kubelet replaces a variable of the container before the shell sees it."""
    for name in known:
        script = script.replace(f"$({name})", f"${{{name}}}")
    return script


def _before(words: collections.abc.Sequence[str]) -> list[str]:
    kept = [word for word in words if pathlib.PurePath(word).name not in _HARMLESS]
    return [f"{' '.join(kept)}: the operator starts the server itself"] if kept else []


def _unknown(text: str) -> str:
    text = _shown(text)
    shown = text if len(text) <= 100 else f"{text[:90]}…"  # noqa: PLR2004 - a line of a terminal
    return f"{shown}: the operator starts `naiad serve` and nothing else: do this in an image of your own, or in a container of predictor.podTemplate"


def _script(text: str, known: set[str]) -> CommandLine:
    """Reads a shell script: assignments, pip, and the command that starts the server."""
    arguments: list[str] | None = None
    found = CommandLine([], {}, [], [])
    for command in _commands(_SUBSTITUTION.sub(_as_one_word, text), found.others):
        words = _without_assignments(command, found.variables)
        name = pathlib.PurePath(words[0]).name if words else ""
        servers = [i for i, word in enumerate(words) if pathlib.PurePath(word).name == _SERVER]
        if servers:
            arguments = words[servers[0] + 1 :]
            found.others.extend(_before(words[: servers[0]]))
        elif name == "export":
            _without_assignments(words[1:], found.variables)
        elif _is_pip(words):
            _install(words, found)
        elif words and name not in _IGNORED and name not in _CONTROL:
            found.others.append(_unknown(" ".join(words)))
        elif name in _CONTROL - {"fi", "done", "esac", "then", "do", "}", "{"}:
            found.others.append(f"{' '.join(words)}: the script decides at start: write what holds")
    if arguments is None:
        return found._replace(arguments=None)
    _drop_variables_of_the_shell(found)
    variables = {*known, *found.variables}
    kept = _without_computed(arguments, found.others)
    expanded = [_expanded(word, variables, found.others) for word in kept]
    values = {name: _expanded(value, variables, found.others) for name, value in found.variables.items()}  # fmt: skip
    return found._replace(arguments=expanded, variables=values)


def _drop_variables_of_the_shell(found: CommandLine) -> None:
    """Reports the variables whose values a pod cannot have: those that the shell computes, and those that extend the image's."""
    for name, value in list(found.variables.items()):
        if _OPEN not in value and not _OWN_VARIABLE.search(value):
            continue
        computed = _shown(found.variables.pop(name))
        if computed == _PROCESS:
            continue
        found.others.append(f"{name}={computed}: the shell computes this at start: write its value")
    for name in [name for name, value in found.variables.items() if name in _names(value)]:
        extended = found.variables.pop(name)
        found.others.append(
            f"{name}={extended}: a variable of a pod cannot extend the image's value: write the whole value in predictor.env, or set it in an image of your own"
        )


def _without_computed(arguments: list[str], others: list[str]) -> list[str]:
    """The arguments without those that the shell computes, each with its option."""
    kept: list[str] = []
    for word in arguments:
        if _OPEN not in word:
            kept.append(word)
            continue
        option = ""
        if not word.startswith("-") and kept and kept[-1].startswith("--") and "=" not in kept[-1]:
            option = f"{kept.pop()} "
        others.append(f"{option}{_shown(word)}: the shell computes this at start: write its value")
    return kept


def _shown(word: str) -> str:
    return word.replace(_OPEN, "$(").replace(_CLOSE, ")").replace(_BLANK, " ")


def _as_one_word(match: re.Match[str]) -> str:
    return f"{_OPEN}{(match[1] or match[2] or '').replace(' ', _BLANK)}{_CLOSE}"


def _commands(text: str, others: list[str]) -> collections.abc.Iterator[list[str]]:
    """The simple commands of a script, without redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        redirected = False
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
            lexer.whitespace_split = True
            tokens = list(lexer)
        except ValueError:
            others.append(_unknown(line.strip()))
            continue
        for token in tokens:
            if not token.strip(";|&"):
                yield words
                words, redirected = [], False
            elif not token.strip("<>&"):
                redirected = True
                if words and words[-1] in {"1", "2"}:
                    words.pop()
            elif redirected:
                continue
            elif not token.strip("()"):
                words += [token]
            else:
                words.append(token)
        yield words


def _without_assignments(words: list[str], variables: dict[str, str]) -> list[str]:
    """The words behind assignments such as A=b, which are added to the variables."""
    for index, word in enumerate(words):
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            return words[index:]
        variables[match[1]] = match[2]
    return []


def _names(value: str) -> set[str]:
    """The variables in a word of a shell."""
    return {match[1] or match[2] for match in _VARIABLE.finditer(value)}


def _expanded(word: str, known: set[str], others: list[str]) -> str:
    """A word of a shell with variables as Kubernetes writes them: $(NAME) for $NAME."""

    def variable(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name in known:
            return f"$({name})"
        if match[3] is not None:
            return match[3]
        others.append(f"{word}: the variable {name} is not set in env: write its value")
        return match[0]

    return _VARIABLE.sub(variable, word)


def _is_pip(words: list[str]) -> bool:
    names = [pathlib.PurePath(word).name for word in words[:4]]
    return "install" in names and any(re.fullmatch(r"pip[0-9.]*", name) for name in names)


def _install(words: list[str], found: CommandLine) -> None:
    """Adds the packages of a plain `pip install`; one with other options is reported as a whole."""
    packages = list(_with_files(words[words.index("install") + 1 :]))
    plain = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*([=<>!~]=?=?.*)?|-r /\S+")
    if packages and all(plain.fullmatch(package) for package in packages):
        found.requirements.extend(packages)
        return
    found.others.append(
        f"{' '.join(words)}: write the packages in predictor.model.pythonRequirements, and pip's options as variables in predictor.env, e.g. "
        "PIP_INDEX_URL"
    )


def _with_files(words: list[str]) -> collections.abc.Iterator[str]:
    """The arguments of `pip install` without flags that change nothing here; `-r` and its file as one."""
    is_file = False
    for word in words:
        if is_file or word.startswith(("--requirement=", "-r/")):
            is_file = False
            yield f"-r {word.removeprefix('--requirement=').removeprefix('-r')}"
        elif word in {"-r", "--requirement"}:
            is_file = True
        elif word not in _PIP_FLAGS:
            yield word
