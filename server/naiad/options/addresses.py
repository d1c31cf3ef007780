"""Addresses to listen on, in every form that Triton takes: `0.0.0.0`, `::1`, `[::1]`, `ipv6:[::1]`, `ipv4:127.0.0.1`, `fe80::1%eth0`, `localhost`."""

from naiad.options.usage import UsageError

_EVERY = "::"
_EVERY_IPV4 = "0.0.0.0"  # noqa: S104 - compared, not bound


def listen_address(option: str, text: str) -> str:
    """The address itself: without the prefix of its family and without brackets.

    Raises:
        UsageError: it has a port, or brackets without an IPv6 address in them.
    """
    family, colon, rest = text.partition(":")
    address = rest if colon and family in ("ipv4", "ipv6") else text
    if address.startswith("[") or address.endswith("]"):
        inside, bracket, after = address[1:].partition("]")
        if not (address.startswith("[") and bracket) or after or ":" not in inside:
            raise UsageError(
                f"--{option}={text}: expected an IPv6 address in brackets, as [::1]; the port is an option of its own"
            )
        return inside
    if address.count(":") == 1:
        raise UsageError(
            f"--{option}={text}: expected an address or a name without a port, which is an option of its own"
        )
    return address


def overlap(one: str, other: str) -> bool:
    """Whether the same port on both addresses is one port."""
    return one == other or {one, other} == {_EVERY, _EVERY_IPV4}
