"""Repositories of the Hugging Face Hub (`hf://owner/name[@revision][/folder]`), with huggingface_hub.

A listing is that of one commit, and files are read at the commit that listed them, so what comes belongs together. Tokens, proxies and the
Hub's address (HF_ENDPOINT) come by huggingface_hub's own rules, and a token that was rotated is read with the next request.
"""

import collections.abc
import contextlib

import httpx2
import huggingface_hub
from huggingface_hub import constants, errors, hf_api, utils

from naiad.repository.stores.address import Address
from naiad.repository.stores.clients.listing import entries_below, name_of
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject, StoreError

# A server sends no data about its use, and waits for no request that the package sends for these.
constants.HF_HUB_DISABLE_TELEMETRY = True

_PIECE = 1 << 20

_TIMEOUT_S = 30.0

_PARTIAL, _THROTTLED, _SERVER_ERROR = 206, 429, 500


class HuggingFaceClient:
    """The files of a model repository of the Hub.

    Args:
        address: bucket is `owner/name`; revision is a branch, tag or commit.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._revision = address.revision or "main"
        self._commits = dict[tuple[str, str], str]()

    def listing(
        self, below: str = "", *, recursive: bool
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        """The files of the newest commit; one request."""
        top = self._address.key("")
        with self._errors(str(self._address), reading=False):
            info = huggingface_hub.HfApi().model_info(
                self._address.bucket,
                revision=self._revision,
                files_metadata=True,
                timeout=_TIMEOUT_S,
            )
        objects = [
            self._stored(file, str(info.sha))
            for file in info.siblings or ()
            if file.rfilename.startswith(top)
        ]
        objects.sort(key=name_of)
        yield from entries_below(objects, below, recursive=recursive)

    def _stored(self, file: hf_api.RepoSibling, commit: str) -> StoredObject:
        key = file.rfilename.removeprefix(self._address.key(""))
        sha256 = file.lfs.sha256 if file.lfs else ""
        version = sha256 or str(file.blob_id)
        self._commits[key, version] = commit
        return StoredObject(
            key, file.size or 0, version, checksum=f"sha256:{sha256}" if sha256 else ""
        )

    def read(self, stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
        """The bytes of a file, at the commit that listed it."""
        where = f"{self._address}/{stored.key}"
        if start == end:
            return
        commit = self._commits.get((stored.key, stored.version))
        if commit is None:
            raise ChangedError(
                f"{where}: it was replaced since it was listed; load the model again"
            )
        url = huggingface_hub.hf_hub_url(
            self._address.bucket, self._address.key(stored.key), revision=commit
        )
        headers = utils.build_hf_headers() | {
            "Range": f"bytes={start}-{end - 1}",
            "Accept-Encoding": "identity",
        }
        with (
            self._errors(where, reading=True),
            # The Hub redirects to the storage of large files; the session sends the token to the Hub only.
            utils.get_session().stream(
                "GET", url, headers=headers, follow_redirects=True, timeout=_TIMEOUT_S
            ) as response,
        ):
            utils.hf_raise_for_status(response)
            position = start if response.status_code == _PARTIAL else 0
            for piece in response.iter_bytes(_PIECE):
                if wanted := piece[max(start - position, 0) : max(end - position, 0)]:
                    yield wanted
                position += len(piece)

    def checksum(self, stored: StoredObject) -> str:
        """The SHA-256 of the listing, which large files have."""
        return stored.checksum

    def close(self) -> None:
        """Nothing: huggingface_hub keeps one session for the whole process."""

    @contextlib.contextmanager
    def _errors(self, where: str, *, reading: bool) -> collections.abc.Iterator[None]:
        """Turns the SDK's errors into ours."""
        try:
            yield
        except errors.OfflineModeIsEnabled:
            raise StoreError(f"{where}: HF_HUB_OFFLINE is set; unset it to reach the Hub") from None
        except errors.GatedRepoError as error:
            raise StoreError(
                f"{where}: access to '{self._address.bucket}' is gated: accept its conditions on the Hub and set HF_TOKEN to a token of that account"
            ) from error
        except errors.RevisionNotFoundError as error:
            raise StoreError(
                f"{where}: there is no revision '{self._revision}': give a branch, a tag or a commit"
            ) from error
        except errors.RepositoryNotFoundError as error:
            raise StoreError(
                f"{where}: there is no model repository '{self._address.bucket}', or it is private: check its name, or set HF_TOKEN to a token that may read it"
            ) from error
        except errors.HfHubHTTPError as error:
            raise self._http_error(where, error.response.status_code, reading=reading) from error
        except errors.HFValidationError as error:
            raise StoreError(f"{where}: the Hub has no such names: {error}") from error
        except httpx2.RequestError as error:
            raise StoreError(
                f"{where}: the Hub cannot be reached ({type(error).__name__}): check the network, proxies and HF_ENDPOINT",
                retry=True,
            ) from error

    def _http_error(self, where: str, status: int, *, reading: bool) -> StoreError:
        if status in (401, 403):
            return StoreError(
                f"{where}: the token is refused (HTTP {status}): set HF_TOKEN to a token that may read '{self._address.bucket}'"
            )
        if status in (404, 416) and reading:
            return ChangedError(f"{where}: it was deleted while it was read; load the model again")
        if status == _THROTTLED or status >= _SERVER_ERROR:
            return StoreError(f"{where}: the Hub cannot answer now (HTTP {status})", retry=True)
        return StoreError(f"{where}: the Hub answered HTTP {status}")
