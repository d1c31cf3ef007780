"""What the parameters of a DALI model and of its backend ask of it. Pure; the keys are those of Triton's dali_backend."""

import collections.abc

import msgspec

from naiad.backends.parameter_values import integer
from naiad.errors import invalid

_THREADS = "num_threads"
_SPLIT = "split_along_outer_axis"
_PLUGINS = "plugin_libs"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a model.

    Attributes:
        threads: of the pipeline; 0 for as many as the pipeline itself says.
        split: the outputs whose samples are cut along their first dimension, each part a row of its own.
        plugins: libraries with further operators, which are loaded first.
    """

    threads: int = 0
    split: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


def settings_of(
    model: str,
    parameters: collections.abc.Mapping[str, str],
    options: collections.abc.Mapping[str, str],
    *,
    outputs: collections.abc.Collection[str],
) -> Settings:
    """The settings in a model's parameters and the `--backend-config` settings of the backend.

    Args:
        model: its name, for messages.
        parameters: those of its config.
        options: those of the backend.
        outputs: the names of its outputs.

    Raises:
        InferenceError: INVALID_ARG: a value that is not valid.
    """
    threads = 0
    if text := parameters.get(_THREADS, ""):
        number = integer(text)
        if number is None or not (number == -1 or 1 <= number <= 1024):  # noqa: PLR2004 - more threads than any machine has processors
            raise invalid(
                f"unable to load model '{model}': the parameter '{_THREADS}' is '{text}': it must be the number of threads of the pipeline, from 1 to "
                "1024, or -1 for as many as the pipeline itself says"
            )
        threads = max(0, number)
    split = tuple(filter(None, parameters.get(_SPLIT, "").split(":")))
    for name in split:
        if name not in outputs:
            raise invalid(
                f"unable to load model '{model}': the parameter '{_SPLIT}' names the output '{name}', which the model does not have: its outputs are "
                f"{', '.join(sorted(outputs)) or 'none'} (several are written with colons between them)"
            )
    plugins = tuple(filter(None, options.get(_PLUGINS, "").split(":")))
    return Settings(threads=threads, split=split, plugins=plugins)
