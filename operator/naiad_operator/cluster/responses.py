"""Reads responses of the API server, and of load balancers in its place: failures as an `errors.ApiError`, and the lines of a watch."""

import asyncio
import collections.abc
import contextlib
import typing

import aiohttp
import msgspec

from naiad_operator.cluster import credentials, errors

FIRST_ERROR = 300
"""The first HTTP status that is a failure."""
_FIRST_REFUSAL = 400
_LONGEST_ERROR = 1 << 16


@contextlib.contextmanager
def translated(action: str) -> collections.abc.Iterator[None]:
    """Raises an `errors.ApiError` in place of what the HTTP client raises."""
    try:
        yield
    except credentials.CredentialsError as error:
        raise errors.Unauthorized(action, message=str(error)) from error
    except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise errors.Unreachable(
            action, message=f"no response from the API server: {reason}"
        ) from error


async def raise_for(response: aiohttp.ClientResponse, action: str) -> None:
    """Raises the failure that a response reports.

    Raises:
        ApiError: its HTTP status is not a success.
    """
    if response.status < FIRST_ERROR:
        return
    text = await start_of(response)
    status = status_of(text) or {"message": text[:500].decode(errors="replace")}
    if response.status < _FIRST_REFUSAL:
        status = {
            "message": f"a redirect to {response.headers.get('Location')}, which is not followed"
        }
    raise errors.from_response(
        action, code=response.status, status=status, retry_after=response.headers.get("Retry-After")
    )


def not_json(action: str, text: bytes) -> errors.ServerTrouble:
    """The failure of a response that should be JSON."""
    return errors.ServerTrouble(action, message=f"the response is not JSON: {text[:200]!r}")


def status_of(text: bytes) -> dict[str, typing.Any]:
    """The Status object in a response; empty if it has none."""
    try:
        status = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return status if isinstance(status, dict) else {"message": str(status)}


async def start_of(response: aiohttp.ClientResponse) -> bytes:
    """The first 64 KiB of a response, or a little more."""
    text = b""
    async for chunk in response.content.iter_any():
        text += chunk
        if len(text) >= _LONGEST_ERROR:
            break
    return text


async def one(chunk: bytes) -> collections.abc.AsyncIterator[bytes]:
    """One chunk as a stream."""
    yield chunk


async def lines(content: aiohttp.StreamReader) -> collections.abc.AsyncIterator[bytes]:
    """Complete lines of any length; the stream's own `readline` rejects lines over 64 KB, and a Deployment can be longer."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
