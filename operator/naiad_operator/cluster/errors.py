"""What can go wrong between the operator and the API server, translated once from HTTP and aiohttp.

Nothing above `cluster/` sees an HTTP client's exception. A class here stands for a situation that callers treat differently;
`transient` says whether the same request may succeed later without anybody changing anything.
"""

import collections.abc
import re
import typing


class ApiError(Exception):
    """The API server refused a request, or could not be asked.

    Attributes:
        code: the HTTP status; 0 where there was no answer.
        reason: the Status object's reason, e.g. "AlreadyExists".
        message: what the API server said.
        doing: the request, in words: "apply deployments.apps prod/demo".
        transient: whether the same request may succeed later by itself.
    """

    transient: typing.ClassVar[bool] = False

    def __init__(self, doing: str, *, code: int = 0, reason: str = "", message: str = "") -> None:
        self.doing = doing
        self.code = code
        self.reason = reason
        self.message = message
        super().__init__(f"cannot {doing}: {message or reason or f'HTTP {code}'}")


class NotFound(ApiError):  # noqa: N818 - reads as what happened, like the API server's own reason
    """404: there is no such object, or no such kind."""


class Conflict(ApiError):  # noqa: N818 - see NotFound
    """409: the object is not as the request expected (its version, its uid, a field's owner)."""

    transient = True


class Gone(ApiError):  # noqa: N818 - see NotFound
    """410: the version to go on from is too old; list again."""

    transient = True


class Forbidden(ApiError):  # noqa: N818 - see NotFound
    """403: the operator's role lacks the verb, or a quota or an admission policy says no."""

    transient = True  # roles are given later, quotas are raised


class Unauthorized(ApiError):  # noqa: N818 - see NotFound
    """401: the credentials are not taken."""

    transient = True  # tokens are renewed


class Invalid(ApiError):  # noqa: N818 - see NotFound
    """400 or 422: the object itself is refused; sending it again gives the same answer.

    Also the 500 that an API server answers to an apply with a field that it does not know.
    """


class TooManyRequests(ApiError):  # noqa: N818 - see NotFound
    """429: the API server asks to come back later.

    Attributes:
        retry_after: seconds, as it asked; None where it named none.
    """

    transient = True

    def __init__(
        self,
        doing: str,
        *,
        code: int = 429,
        reason: str = "",
        message: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(doing, code=code, reason=reason, message=message)
        self.retry_after = retry_after


class ServerTrouble(ApiError):  # noqa: N818 - see NotFound
    """5xx: the API server or something behind it has a problem of its own."""

    transient = True


class Unreachable(ApiError):  # noqa: N818 - see NotFound
    """No answer: no connection, a connection that broke, or none in time."""

    transient = True


def from_answer(
    doing: str,
    *,
    code: int,
    status: collections.abc.Mapping[str, typing.Any],
    retry_after: str | None = None,
) -> ApiError:
    """The error for an answer of 400 or more.

    Args:
        doing: the request, in words.
        code: the HTTP status.
        status: the Status object of the answer; empty where it had none.
        retry_after: the header of that name.
    """
    reason, message = status.get("reason") or "", status.get("message") or ""
    if code == _SERVER and (misfit := _MISFIT.match(message)):
        # What an apply does not know, or knows as another type, is no trouble of the server's, whatever its code says.
        code, reason, message = 422, "Invalid", _GO_VALUE.sub(r"\1", misfit[1])
    facts: dict[str, typing.Any] = {"code": code, "reason": reason, "message": message}
    if code == _TOO_MANY_REQUESTS:
        details = status.get("details") or {}
        asked = retry_after or details.get("retryAfterSeconds")
        return TooManyRequests(doing, retry_after=_seconds(asked), **facts)
    kind = _BY_CODE.get(code)
    if kind is None:
        kind = ServerTrouble if code >= _SERVER else ApiError
    return kind(doing, **facts)


_TOO_MANY_REQUESTS = 429
_SERVER = 500
_MISFIT = re.compile(r"failed to create typed patch object \([^)]*\): (.*)", re.DOTALL)
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


def _seconds(asked: object) -> float | None:
    """Retry-After is a number of seconds from every API server; a date would come from something before it."""
    try:
        return max(0.0, float(str(asked)))
    except ValueError:
        return None
