"""`naiad-operator`, and `python -m naiad_operator`."""

import sys

from naiad_operator.cli import main

if __name__ == "__main__":
    sys.exit(main())
