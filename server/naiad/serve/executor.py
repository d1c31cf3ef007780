"""The event loop's threads for blocking work. The stop of the server does not wait for them."""

import concurrent.futures

from typing_extensions import override


class UnwaitedExecutor(concurrent.futures.ThreadPoolExecutor):
    """A pool whose shutdown cancels pending work and returns at once: a call that hangs, in a driver for example, must not keep the loop open."""

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
