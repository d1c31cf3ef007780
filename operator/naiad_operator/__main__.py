"""`python -m naiad_operator` is `naiad-operator`."""

import sys


def main() -> None:
    """The entry point of the console command."""
    try:
        # Imported here: an installation with the extra `server` has this command, but not its dependencies.
        from naiad_operator import cli  # noqa: PLC0415 - see above

        status = cli.main()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "naiad_operator":
            raise
        sys.exit(
            f"naiad-operator: the package {package} is missing: pip install '.[operator]' in a checkout of naiad brings it"
        )
    sys.exit(status)


if __name__ == "__main__":
    main()
