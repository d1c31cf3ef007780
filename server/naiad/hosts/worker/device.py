"""What an error of a batch means for the device: whether this process can still use it, and memory that torch holds back.

Nothing is imported for it: a framework that a model did not import has no part in its errors. Limits: standard library, Python 3.8.
"""

import contextlib
import logging
import sys
from typing import Any

from naiad.backends import device_errors

_log = logging.getLogger(__name__)

_TORCH = "torch"


class Findings:
    """What the errors of a batch mean.

    Attributes:
        lost: why this process cannot use its device any more, as a sentence without its end; "" if it can.
        out_of_memory: the device had no memory left.
    """

    __slots__ = ("lost", "out_of_memory")

    def __init__(self) -> None:
        self.lost = ""
        self.out_of_memory = False

    def add(self, error: BaseException) -> None:
        """An error of the batch: raised, or in a response."""
        lost = device_errors.unrecoverable(error)
        if lost is not None and (lost.certain or not _device_works()):
            self.lost = self.lost or f"after {lost} a process cannot use its GPU any more"
        elif not self.out_of_memory:
            self.out_of_memory = device_errors.out_of_memory(error)


def of(*errors: BaseException) -> Findings:
    """What these errors mean."""
    findings = Findings()
    for error in errors:
        findings.add(error)
    return findings


def release_memory() -> None:
    """Have torch return the memory of the device that it caches: after a lack of memory others need it.

    The tensors of the batch that failed have to be gone by now.
    """
    cuda = _cuda_of_torch()
    if cuda is not None:
        try:
            cuda.empty_cache()
        except Exception:  # noqa: BLE001 - it is no reason to fail a request
            _log.warning("torch could not release its cached memory", exc_info=True)


def _device_works() -> bool:
    """Whether torch, if it uses a device in this process, still can: an error that lasts is raised again."""
    cuda = _cuda_of_torch()
    if cuda is None:
        return True
    try:
        cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever it is: nothing else was asked of the device
        # Another instance of this process may be capturing a graph: then waiting is refused, and says nothing of the device.
        return "capturing" in str(error)
    return True


def _cuda_of_torch() -> Any:
    """`torch.cuda`, if it has a device in this process; else None."""
    torch = sys.modules.get(_TORCH)
    with contextlib.suppress(Exception):
        cuda: Any = torch.cuda  # type: ignore[union-attr]  # None has no such attribute: suppressed
        if cuda.is_initialized():
            return cuda
    return None
