"""The errors of requests to the API server, translated from HTTP and aiohttp.

No code above `cluster/` sees an exception of the HTTP client. Each class stands for a case that callers treat differently;
`transient` says whether the same request may succeed later without a change to the resource.
"""

import collections.abc
import re
import typing


class ApiError(Exception):
    """The API server refused a request, or did not respond.

    Attributes:
        code: the HTTP status; 0 when there was no response.
        reason: the Status object's reason, e.g. "AlreadyExists".
        message: the API server's message.
        action: the request in words: "apply deployments.apps prod/demo".
        transient: whether the same request may succeed later.
    """

    transient: typing.ClassVar[bool] = False

    def __init__(self, action: str, *, code: int = 0, reason: str = "", message: str = "") -> None:
        self.action = action
        self.code = code
        self.reason = reason
        self.message = message
        super().__init__(f"cannot {action}: {message or reason or f'HTTP {code}'}")


class NotFound(ApiError):  # noqa: N818 - named like the API server's own reason
    """404: the object or the resource type does not exist."""


class Conflict(ApiError):  # noqa: N818 - see NotFound
    """409: the object is not in the state that the request expects (its version, its uid, a field's owner)."""

    transient = True


class Gone(ApiError):  # noqa: N818 - see NotFound
    """410: the resourceVersion to continue from is too old; a new list is required."""

    transient = True


class Forbidden(ApiError):  # noqa: N818 - see NotFound
    """403: the operator's role lacks the verb, or a quota or an admission policy denies the request."""

    transient = True  # roles and quotas may be changed


class Unauthorized(ApiError):  # noqa: N818 - see NotFound
    """401: the API server does not accept the credentials."""

    transient = True  # tokens are renewed before the next attempt


class Invalid(ApiError):  # noqa: N818 - see NotFound
    """400 or 422: the object is invalid; sending it again has the same result.

    Also the 500 with which an API server responds to an apply with a field that it does not know.
    """


class TooManyRequests(ApiError):  # noqa: N818 - see NotFound
    """429: the API server limits the rate of requests.

    Attributes:
        retry_after: seconds to wait, from the response; None when it named none.
    """

    transient = True

    def __init__(
        self,
        action: str,
        *,
        code: int = 429,
        reason: str = "",
        message: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(action, code=code, reason=reason, message=message)
        self.retry_after = retry_after


class ServerTrouble(ApiError):  # noqa: N818 - see NotFound
    """5xx: the API server, or a component behind it, failed."""

    transient = True


class Unreachable(ApiError):  # noqa: N818 - see NotFound
    """There was no response: no connection, a broken connection, or a timeout."""

    transient = True


def from_response(
    action: str,
    *,
    code: int,
    status: collections.abc.Mapping[str, typing.Any],
    retry_after: str | None = None,
) -> ApiError:
    """The error for a response with status 400 or higher.

    Args:
        action: the request in words.
        code: the HTTP status.
        status: the Status object in the response; empty when it had none.
        retry_after: the Retry-After header.
    """
    reason, message = (
        status.get("reason") or "",
        _in_one_line(str(status.get("message") or "")[:_LONGEST_MESSAGE]),
    )
    if code == _SERVER and (patch_error := _PATCH_ERROR.match(message)):
        # A field that the server does not know, or knows with another type, is an error in the manifest, despite the code 500.
        code, reason, message = 422, "Invalid", _GO_VALUE.sub(r"\1", patch_error[1])
    fields: dict[str, typing.Any] = {"code": code, "reason": reason, "message": message}
    if code == _TOO_MANY_REQUESTS:
        details = status.get("details") or {}
        value = retry_after or details.get("retryAfterSeconds")
        return TooManyRequests(action, retry_after=_seconds(value), **fields)
    kind = _BY_CODE.get(code)
    if kind is None:
        kind = ServerTrouble if code >= _SERVER else ApiError
    return kind(action, **fields)


def _in_one_line(message: str) -> str:
    """A message that may be a list, one entry per line, with "errors:" above it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith("errors:"):
        lines[:2] = [f"{lines[0].removesuffix('errors:')}{lines[1]}"]
    return "; ".join(lines)


_LONGEST_MESSAGE = 4_000
"""The API server repeats the value that it refuses, which may be of any length."""
_TOO_MANY_REQUESTS = 429
_SERVER = 500
_PATCH_ERROR = re.compile(r"failed to create typed patch object \([^)]*\): (.*)", re.DOTALL)
_GO_VALUE = re.compile(r"&(?:value\.valueUnstructured)?\{(?:Value:)?(.*?)\}")
_BY_CODE: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}


def _seconds(value: object) -> float | None:
    """Retry-After in seconds; None for a date, which API servers do not send (but proxies may)."""
    try:
        return max(0.0, float(str(value)))
    except ValueError:
        return None
