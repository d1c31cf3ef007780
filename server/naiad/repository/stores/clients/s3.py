"""S3 and stores that are compatible with it (boto3).

Credentials: those of Triton's credential file if there is one; else boto3's own chain (variables, shared files, roles, web identity, instance
metadata). Temporary credentials renew themselves; files are read once per session. So a refusal makes a new session and repeats the request once, and
rotated keys work without a restart. Without any credentials requests are not signed, for public buckets.
"""

import base64
import collections.abc
import datetime as dt
import re
import typing

import boto3
import botocore
import botocore.config
import botocore.exceptions as failures
import botocore.loaders
import botocore.session
import botocore.utils
import urllib3.exceptions

from naiad.repository.stores import checksums, credentials
from naiad.repository.stores.address import Address
from naiad.repository.stores.credentials import RefusedError, Renewable, S3Credential
from naiad.repository.stores.objects import (
    CONNECTIONS,
    ChangedError,
    Folder,
    StoredObject,
    StoreError,
)

_PIECE = 1 << 20
_MD5 = re.compile(r"^[0-9a-f]{32}$")
_TIMEOUTS = {"connect_timeout": 4, "read_timeout": 15}
"""Seconds until a connection stands, and between two pieces of a response."""

_CHANGED = frozenset(
    ("NoSuchKey", "NoSuchVersion", "PreconditionFailed", "InvalidRange", "404", "412", "416")
)
_BUSY = frozenset((
    "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests", "RequestTimeout", "RequestLimitExceeded", "InternalError",
    "ServiceUnavailable", "OperationAborted",
))  # fmt: skip
_UNKNOWN_KEY = "the access key id is not known to it; check AWS_ACCESS_KEY_ID or the credentials file, and that they are for this endpoint"
_EXPIRED = "the session token has expired or is not valid; renew the credentials, they are read again at the next attempt"
_REFUSED = {
    "AccessDenied": "access denied; the credentials need s3:ListBucket for the bucket and s3:GetObject for its objects",
    "403": "access denied; the credentials need s3:ListBucket for the bucket and s3:GetObject for its objects",
    "InvalidAccessKeyId": _UNKNOWN_KEY,
    "XAdminUserNotFound": _UNKNOWN_KEY,
    "SignatureDoesNotMatch": "the secret key does not fit the access key id; check AWS_SECRET_ACCESS_KEY or the credentials file",
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
}
"""Refusals that other credentials may end, by code: what to check."""

_WRONG = {
    "NoSuchBucket": "there is no such bucket; check its name, and the endpoint and region in use",
    "RequestTimeTooSkewed": "the clock of this machine differs too much from that of the store; set it (NTP)",
    "RequestInTheFuture": "the clock of this machine is ahead of that of the store; set it (NTP)",
    "PermanentRedirect": "the bucket is in another region; set AWS_DEFAULT_REGION to it",
    "AuthorizationHeaderMalformed": "the bucket is in another region; set AWS_DEFAULT_REGION to it",
    "IllegalLocationConstraintException": "the bucket is in another region; set AWS_DEFAULT_REGION to it",
    "InvalidBucketName": "this is not a valid name of a bucket; write s3://bucket/prefix",
    "InvalidObjectState": "the object is archived (Glacier); restore it first",
}
"""Refusals that repeat, by code: what to check."""

_FAILURES = (failures.ClientError, failures.BotoCoreError, urllib3.exceptions.HTTPError, OSError)
_DESCRIPTIONS = botocore.loaders.create_loader()
"""What botocore reads of its services, once for all sessions: it takes most of the time that a new client takes."""

_ANONYMOUS = "; no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or a role"


class S3Client:
    """Implements `ObjectClient`.

    Args:
        address: of the repository.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._anonymous = False
        self._sdk = Renewable[typing.Any](self._build)

    def listing(
        self, below: str = "", *, recursive: bool
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        """See `ObjectClient`."""
        key = self._address.key(below).rstrip("/")
        top = f"{key}/" if key else ""
        skip = len(self._address.key(""))
        arguments = {"Prefix": top} | ({} if recursive else {"Delimiter": "/"})
        while True:
            page = self._send("list_objects_v2", "", arguments)
            for common in page.get("CommonPrefixes", ()):
                yield Folder(common["Prefix"][len(top) :].rstrip("/"))
            for entry in page.get("Contents", ()):
                if len(entry["Key"]) > skip:  # else it stands for the repository's own folder
                    yield _stored(entry, skip)
            if not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    def read(self, stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
        """See `ObjectClient`."""
        span = {"Range": f"bytes={start}-{end - 1}"}
        response = self._send("get_object", stored.key, self._version(stored) | span)
        body = response["Body"]
        try:
            if response.get("ETag", "").strip('"') != stored.version:
                raise self._changed(stored.key)
            while piece := body.read(_PIECE):
                yield piece
        except _FAILURES as error:
            raise self._failure(error, stored.key) from None
        finally:
            body.close()

    def checksum(self, stored: StoredObject) -> str:
        """See `ObjectClient`.

        The parts of a multipart upload have checksums of their own, which are not used; an ETag is an MD5 only where there is one part, and the
        store has not encrypted it with a key of its own.
        """
        response = self._send(
            "head_object", stored.key, self._version(stored) | {"ChecksumMode": "ENABLED"}
        )
        offered = []
        for name in checksums.ALGORITHMS:
            value = response.get(f"Checksum{name.upper()}", "-")
            if "-" not in value:  # or it is of the parts, whose number follows
                offered.append(f"{name}:{base64.b64decode(value).hex()}")
        encrypted = response.get("ServerSideEncryption", "AES256") != "AES256"
        if _MD5.match(stored.version) and not encrypted and "SSECustomerAlgorithm" not in response:
            offered.append(f"md5:{stored.version}")
        return checksums.choose(offered)

    def close(self) -> None:
        """See `ObjectClient`."""
        self._sdk.close()

    def _version(self, stored: StoredObject) -> dict[str, str]:
        return {"Key": self._address.key(stored.key), "IfMatch": f'"{stored.version}"'}

    def _send(
        self, operation: str, key: str, arguments: collections.abc.Mapping[str, str]
    ) -> typing.Any:
        """Send a request; once more with new credentials if these are refused."""

        def send(client: typing.Any) -> typing.Any:
            try:
                return getattr(client, operation)(Bucket=self._address.bucket, **arguments)
            except _FAILURES as error:
                raise self._failure(error, key) from None

        return self._sdk.call(send)

    def _build(self) -> typing.Any:
        given = credentials.s3(str(self._address)) or S3Credential()
        endpoint = self._address.endpoint
        try:
            core = botocore.session.Session()
            core.register_component("data_loader", _DESCRIPTIONS)
            # Most of the time of a listing is that of its times.
            core.get_component("response_parser_factory").set_parser_defaults(
                timestamp_parser=_time
            )
            session = boto3.session.Session(
                botocore_session=core,
                aws_access_key_id=given.key_id or None,
                aws_secret_access_key=given.secret_key or None,
                aws_session_token=given.session_token or None,
                region_name=given.region or None,
                profile_name=given.profile or None,
            )
            self._anonymous = session.get_credentials() is None
            config = botocore.config.Config(
                **_TIMEOUTS,
                max_pool_connections=CONNECTIONS,
                retries={"mode": "standard", "total_max_attempts": 3},
                # Verified here: botocore does it for responses of whole objects only.
                response_checksum_validation="when_required",
                signature_version=botocore.UNSIGNED if self._anonymous else None,
                s3={"addressing_style": "path"} if endpoint else None,
            )
            return session.client(
                "s3",
                endpoint_url=endpoint or None,
                region_name=session.region_name or ("us-east-1" if endpoint else None),
                config=config,
            )
        except (failures.BotoCoreError, ValueError) as error:
            raise self._failure(error, "") from None

    def _changed(self, key: str) -> ChangedError:
        return ChangedError(
            f"{self._place(key)}: the object was replaced or deleted while it was read; load the model again"
        )

    def _place(self, key: str) -> str:
        return f"{self._address}/{key}" if key else str(self._address)

    def _failure(self, error: Exception, key: str) -> StoreError:
        """What to tell the user: one sentence that says what to check."""
        place = self._place(key)
        match error:
            case failures.ClientError():
                return self._refusal(error, key)
            case failures.SSLError():
                return StoreError(
                    f"{place}: TLS with the store fails ({_brief(error)}); check that it speaks https there, and AWS_CA_BUNDLE for a certificate authority of your own"
                )
            case (
                failures.HTTPClientError()
                | failures.ConnectionError()
                | failures.IncompleteReadError()
                | failures.ResponseStreamingError()
                | urllib3.exceptions.HTTPError()
                | OSError()
            ):
                return StoreError(
                    f"{place}: no connection to {self._address.endpoint or 'S3'}, or it broke ({_brief(error)}); check the host, the port, the "
                    "network and proxy settings, and that the store is running",
                    retry=True,
                )
            case _:
                return StoreError(
                    f"{place}: {_brief(error)}; check the AWS credentials and settings"
                )

    def _refusal(self, error: typing.Any, key: str) -> StoreError:
        code, place = _code(error), self._place(key)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if key and code in _CHANGED:
            return self._changed(key)
        if code in _REFUSED:
            return RefusedError(
                f"{place}: {_REFUSED[code]}" + (_ANONYMOUS if self._anonymous else "")
            )
        if code in _WRONG:
            return StoreError(f"{place}: {_WRONG[code]}")
        message = str(error.response.get("Error", {}).get("Message", ""))[:200]
        retry = status >= 500 or status == 429 or code in _BUSY  # noqa: PLR2004 - HTTP statuses
        check = (
            "it is overloaded or out of order, try again later"
            if retry
            else "check the address and the store's log"
        )
        return StoreError(
            f"{place}: the store refused the request ({code}: {message}); {check}", retry=retry
        )


def _stored(entry: typing.Any, skip: int) -> StoredObject:
    modified: dt.datetime = entry["LastModified"]
    seconds = int(modified.replace(microsecond=0).timestamp())
    return StoredObject(
        key=entry["Key"][skip:],
        size=entry["Size"],
        version=entry["ETag"].strip('"'),
        modified_ns=seconds * 10**9 + modified.microsecond * 1000,
    )


def _time(value: typing.Any) -> dt.datetime:
    """A time in a response, in a twentieth of the time that botocore takes for the usual form."""
    try:
        return dt.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        time: dt.datetime = botocore.utils.parse_timestamp(value)
        return time


def _code(error: Exception) -> str:
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
