"""Which words may name a model in a load (row 7.14). Pure."""

from naiad.errors import invalid


def check_name(name: str) -> None:
    """Refuse a name that is none, or that would lead out of the repository.

    Raises:
        InferenceError: INVALID_ARG.
    """
    trimmed = name.strip()
    if not trimmed:
        raise invalid(
            "Model name cannot be empty. Please enter a valid name to deploy: that of a folder in the model repository"
        )
    if trimmed in (".", "..") or "/" in trimmed or "\0" in trimmed:
        raise invalid(
            f"invalid model name '{name}', model name must not contain path traversal characters: "
            "give the name of a folder in the model repository"
        )
