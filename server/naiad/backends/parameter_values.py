"""Values of model parameters as Triton's backends read them (`ParseBoolValue` and `ParseIntValue` of its backend library). Pure."""

_WORDS = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


def boolean(text: str) -> bool | None:
    """A boolean, in letters of any case; None of anything else."""
    return _WORDS.get(text.lower())


def integer(text: str) -> int | None:
    """An integer; None of anything else."""
    try:
        return int(text)
    except ValueError:
        return None
