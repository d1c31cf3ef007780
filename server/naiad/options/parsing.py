"""argv -> Options: the rules of row 17.1, and one clear sentence for everything that does not fit. Pure.

Written by hand because the reference's rules are not argparse's: a boolean may stand alone or take its value as the next word,
`--flag value` and `--flag=value` both work, a unique beginning of a name is enough (getopt_long), and every mistake is exit 1.
What a value may be is in `values`, the options with a syntax of their own are in `special`, the rules about several in `together`.
"""

import collections.abc
import difflib
import os
import types
from typing import Any

from naiad.options.cache_config import notes as cache_notes, settings as cache_settings
from naiad.options.options import FLAGS, Flag, Kind, Options
from naiad.options.special import CACHE, SPECIAL, Fields
from naiad.options.together import check_together
from naiad.options.trace_config import trace_options
from naiad.options.usage import HelpAsked, UsageError
from naiad.options.values import FALSE, TRUE, refuse_missing, typed
from naiad.repository.control_mode import ControlMode


def parse(arguments: collections.abc.Sequence[str], *, needs_port: bool = True) -> Options:
    """Options from the words after the command.

    Args:
        arguments: the words.
        needs_port: whether options that open no port are an error.

    Raises:
        UsageError: something is wrong with them.
        HelpAsked: --help or --help-all is among them.
    """
    fields: Fields = {"notes": []}
    for flag, value in _given(arguments):
        if flag.missing:
            refuse_missing(flag, value)
        elif flag.idle:
            typed(flag, value)
            fields["notes"].append(f"--{flag.name} has no effect here: {flag.idle}")
        elif (take := SPECIAL.get(flag.name)) is not None:
            take(fields, flag, value)
        else:
            fields[flag.field] = typed(flag, value)
    if "model_repository" not in fields:
        raise UsageError(
            "--model-repository is missing: give the folder that holds one folder per model, "
            "for example --model-repository=/models"
        )
    if "strict_model_config" in fields:
        fields["disable_auto_complete_config"] = fields.pop("strict_model_config")
        fields["notes"].append(
            "--strict-model-config is deprecated: use --disable-auto-complete-config"
        )
    mode = fields.get("model_control_mode", ControlMode.NONE)
    fields["notes"] += [
        f"--{name} has no effect here: the repository is polled only with --model-control-mode=poll"
        for name in ("repository-poll-secs", "repository-quiet-secs")
        if name.replace("-", "_") in fields and not mode.polls
    ]
    if "rate_limit_resource" in fields and not fields.get("rate_limit"):
        fields["notes"].append(
            "--rate-limit-resource has no effect here: resources are granted only with --rate-limit=execution_count"
        )
    cache = fields.pop("cache", {})
    fields["cache"] = cache_settings(cache, CACHE, os.environ)
    fields["notes"] += cache_notes(cache, CACHE)
    if fields.get("grpc_use_ssl_mutual"):
        fields["grpc_use_ssl"] = True
    fields.pop("legacy_cache", None)
    fields["trace"] = trace_options(fields.pop("trace", ()), os.environ)
    options = Options(**{name: _frozen(value) for name, value in fields.items()})
    check_together(options, needs_port=needs_port)
    return options


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(dict.fromkeys(value))
    return types.MappingProxyType(value) if isinstance(value, dict) else value


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
