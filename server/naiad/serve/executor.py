"""The event loop's threads for work that blocks, which the end of the server does not wait for."""

import concurrent.futures

from typing_extensions import override


class UnwaitedExecutor(concurrent.futures.ThreadPoolExecutor):
    """A pool whose shutdown begins nothing more and returns at once: a call that hangs, in a driver say, must not keep the loop from closing."""

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
