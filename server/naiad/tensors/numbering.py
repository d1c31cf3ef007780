"""The numbers of devices: a worker that sees one device alone numbers it 0, whatever the server does. Limits: standard library, Python 3.8."""

import os

DEVICE = "NAIAD_DEVICE"
"""The environment variable that has the server's number of the one device that this process sees; without it, both number devices alike."""


def server_number(device: int) -> int:
    """The server's number of a device of this process."""
    return int(os.environ.get(DEVICE) or device)
