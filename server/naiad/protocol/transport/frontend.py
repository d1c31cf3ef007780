"""The lifecycle that every port of the server has, whatever its protocol: taken, served, drained, closed."""

import collections.abc
import typing


class Frontend(typing.Protocol):
    """A port of the server. The methods are called in this order; each may be left out, and `close` may be called at any time, and again."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on, once it is reserved: with the real port in place of 0."""

    async def reserve(self) -> None:
        """Take the port, so that no other process can, without serving.

        Raises:
            ListenError, ValueError: it cannot be taken; the message names the option.
        """

    def announce(self, on_client: collections.abc.Callable[[], None]) -> None:
        """Call this when a client comes, before its first request is handled. Called before `start`."""

    async def start(self) -> None:
        """Serve; takes the port first if `reserve` did not, and raises what `reserve` raises."""

    def was_in_use(self) -> bool:
        """Whether a client was there since this was called before: a connection was open on which requests come, or a call was in progress. Cheap."""

    def begin_drain(self) -> None:
        """Go on serving, and let clients go to other servers as far as the protocol has a way to tell them."""

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - it bounds the clients, then acts; not a deadline to raise at
        """Accept nothing new, and finish requests in progress within `timeout` seconds; the rest get UNAVAILABLE.

        Returns:
            How many connections or calls were not finished.
        """


def unheard() -> None:
    """Is called for each client where no other function is set."""
