"""argv -> Options: the rules of row 17.1, and one clear sentence for everything that does not fit. Pure.

Written by hand because the reference's rules are not argparse's: a boolean may stand alone or take its value as the next word,
`--flag value` and `--flag=value` both work, a unique beginning of a name is enough (getopt_long), and every mistake is exit 1.
"""

import collections.abc
import difflib
import math
import types
from typing import Any

from naiad.options.options import Options
from naiad.options.special import FALSE, SPECIAL, TRUE, Collected, boolean
from naiad.options.table import FLAGS, Flag, Kind
from naiad.options.usage import HelpAsked, UsageError
from naiad.repository.control_mode import EVERY_MODEL

_MAX_PORT = 65535


def parse(arguments: collections.abc.Sequence[str]) -> Options:
    """Options from the words after the command.

    Raises:
        UsageError: something is wrong with them.
        HelpAsked: --help or --help-all is among them.
    """
    collected = Collected()
    fields: dict[str, Any] = {}
    notes: list[str] = []
    for flag, value in _given(arguments):
        if flag.missing:
            _refuse_missing(flag, value)
        elif flag.idle:
            _typed(flag, value)
            notes.append(f"--{flag.name} has no effect here: {flag.idle}")
        elif flag.field:
            fields[flag.field] = _typed(flag, value)
        else:
            SPECIAL[flag.name](collected, flag, value)
    if not collected.repositories:
        raise UsageError(
            "--model-repository is missing: give the folder that holds one folder per model, "
            "for example --model-repository=/models"
        )
    if collected.strict_model_config is not None:
        fields["disable_auto_complete_config"] = collected.strict_model_config
        notes.append("--strict-model-config is deprecated: use --disable-auto-complete-config")
    notes += collected.notes
    fields.update(
        model_repository=tuple(dict.fromkeys(collected.repositories)),
        model_control_mode=collected.control_mode,
        load_model=tuple(dict.fromkeys(collected.models)),
        backend_config=types.MappingProxyType(collected.backends),
        http_restricted_api=types.MappingProxyType(collected.http_restricted),
        grpc_restricted_protocol=types.MappingProxyType(collected.grpc_restricted),
        log_verbose=collected.log_verbose,
        counter_latencies=collected.counter_latencies,
    )
    if fields.get("grpc_use_ssl_mutual"):
        fields["grpc_use_ssl"] = True
    options = Options(**fields, notes=tuple(notes))
    _check_together(options)
    return options


def _given(arguments: collections.abc.Sequence[str]) -> list[tuple[Flag, str]]:
    given = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in ("--help", "-h", "--help-all"):
            raise HelpAsked(everything=word == "--help-all")
        if not word.startswith("--") or word == "--":
            raise UsageError(f"unexpected argument '{word}': options begin with two dashes")
        name, equals, value = word[2:].partition("=")
        flag = _find(name)
        if not equals:
            if flag.kind is Kind.BOOLEAN:
                follows = words[0].lower() if words else ""
                value = words.pop(0) if follows in TRUE | FALSE else "true"
            elif not words:
                raise UsageError(f"option --{flag.name} needs a value ({flag.kind.value})")
            else:
                value = words.pop(0)
        given.append((flag, value))
    return given


def _find(name: str) -> Flag:
    flag = FLAGS.get(name)
    if flag is not None:
        return flag
    longer = [other for other in FLAGS if other.startswith(name)] if name else []
    if len(longer) == 1:
        return FLAGS[longer[0]]
    if longer:
        raise UsageError(
            f"option --{name} is ambiguous: it could be {', '.join('--' + other for other in longer)}"
        )
    near = difflib.get_close_matches(name, FLAGS, n=1)
    hint = f"; did you mean --{near[0]}?" if near else "; --help-all lists all options"
    raise UsageError(f"unrecognized option '--{name}'{hint}")


def _typed(flag: Flag, value: str) -> bool | int | float | str:
    result: bool | int | float | str
    try:
        match flag.kind:
            case Kind.BOOLEAN:
                return boolean(flag, value)
            case Kind.INTEGER:
                result = int(value)
            case Kind.FLOAT:
                result = float(value)
                if not math.isfinite(result):
                    raise UsageError(f"--{flag.name}={value}: must be a finite number")
            case Kind.STRING:
                if flag.choices and value not in flag.choices:
                    raise UsageError(
                        f"--{flag.name}={value}: expected one of {', '.join(flag.choices)}"
                    )
                return value
    except ValueError:
        raise UsageError(
            f"--{flag.name}={value}: expected {'an' if flag.kind is Kind.INTEGER else 'a'} {flag.kind.value}"
        ) from None
    _check_range(flag, value, result)
    return result


def _check_range(flag: Flag, value: str, number: float) -> None:
    wrong = ""
    if flag.minimum is not None and number < flag.minimum:
        wrong = f"must be at least {flag.minimum:g}"
    elif flag.maximum is not None and number > flag.maximum:
        wrong = f"must be at most {flag.maximum}"
    if wrong:
        raise UsageError(f"--{flag.name}={value}: {wrong}{': ' if flag.why else ''}{flag.why}")


def _refuse_missing(flag: Flag, value: str) -> None:
    if value.lower() not in flag.harmless:
        raise UsageError(
            f"--{flag.name}={value}: {flag.missing}: not supported yet; leave the option out"
        )


def _check_models(options: Options) -> None:
    """Check `--load-model` (row 7.31)."""
    if options.load_model and not options.model_control_mode.allows_load_model:
        raise UsageError(
            "Use of '--load-model' requires setting '--model-control-mode=explicit' as well: without it, all models are loaded"
        )
    if EVERY_MODEL in options.load_model and len(options.load_model) > 1:
        raise UsageError(
            "Wildcard model name '*' must be the ONLY startup model if specified at all: "
            "give --load-model=* alone, or the models by name"
        )


def _check_together(options: Options) -> None:
    """Check the rules that concern several options (row 17.11)."""
    _check_models(options)
    ports: dict[tuple[str, int], str] = {}
    listeners = (
        ("http-port", options.allow_http, options.http_address, options.http_port),
        ("grpc-port", options.allow_grpc, options.grpc_address, options.grpc_port),
        (
            "metrics-port", options.allow_metrics,
            options.metrics_address or options.http_address, options.metrics_port,
        ),
    )  # fmt: skip
    for name, allowed, address, port in listeners:
        if port > _MAX_PORT:
            raise UsageError(f"--{name}={port}: must be at most {_MAX_PORT}")
        if not allowed or port == 0:
            continue
        other = ports.setdefault((address, port), name)
        if other != name:
            raise UsageError(
                f"--{name} and --{other} are both {address}:{port}: give each a port of its own"
            )
    if not (options.allow_http or options.allow_grpc or options.allow_metrics):
        raise UsageError(
            "--allow-http, --allow-grpc and --allow-metrics are all off: nothing would be served"
        )
    if options.grpc_use_ssl and not (options.grpc_server_cert and options.grpc_server_key):
        raise UsageError("--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key")
