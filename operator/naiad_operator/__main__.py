"""`python -m naiad_operator` is `naiad-operator`."""

import sys

from naiad_operator import cli


def main() -> None:
    """The console command."""
    sys.exit(cli.main())


if __name__ == "__main__":
    main()
