"""The operator as another release of it: with another version, and with another pod template.

    OTHER_VERSION=0.3.0 OTHER_VARIABLE=x python -m tests.support.other_release run …

The pod template of this release has the environment variable RELEASE with the given value; without a value it is that of the present release.
A release that renders as 0.1.0 did writes no record: OTHER_VERSION=0.1.0.
"""

import os
import sys
import typing

import naiad_operator

naiad_operator.__version__ = os.environ["OTHER_VERSION"]

from naiad_operator import cli  # noqa: E402 - reads the version when it is imported
from naiad_operator.builders.workload import container  # noqa: E402 - as above
from naiad_operator.upgrade import record  # noqa: E402 - as above

_environment = container.environment


def _other_environment(*arguments: typing.Any) -> typing.Any:
    made = _environment(*arguments)
    made["env"].append({"name": "RELEASE", "value": os.environ["OTHER_VARIABLE"]})
    return made


if os.environ.get("OTHER_VARIABLE"):
    setattr(container, "environment", _other_environment)  # noqa: B010 - mypy compares the signatures of an assignment
if naiad_operator.__version__ == "0.1.0":
    setattr(record, "annotations", lambda _: {})  # noqa: B010 - as above

sys.exit(cli.main())
