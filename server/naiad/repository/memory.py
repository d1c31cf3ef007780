"""What the repository asks of the memory of the server and its workers, to say what an unload freed."""

import typing


class Memory(typing.Protocol):
    """The memory of all that was started for this server. All of it is blocking."""

    def resident(self) -> int:
        """Bytes that are held now."""
        ...

    def expect(self) -> None:
        """Say that much is about to be freed; `give_back` follows."""
        ...

    def give_back(self, *, collect: bool) -> None:
        """Return to the system what is not used; `collect`: what only the garbage collector finds, too."""
        ...
