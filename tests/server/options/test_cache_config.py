"""`--cache-config` and `--response-cache-byte-size`."""

import pytest

from naiad.options.cache_config import PASSWORD_VARIABLE, USER_VARIABLE
from naiad.options.parsing import parse
from naiad.options.usage import UsageError
from naiad.response_cache.settings import LocalSettings, RedisSettings

REPOSITORY = "--model-repository=/models"


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ([], None),
        (["--cache-config=local,size=1048576"], LocalSettings(size=1048576)),
        (["--cache-config", "local,size=2048,full_key=true"], LocalSettings(size=2048, full_key=True)),
        (["--response-cache-byte-size=4096"], LocalSettings(size=4096)),
        (["--response-cache-byte-size=0"], None),
        (["--cache-config=redis,host=r", "--cache-config=redis,port=6379"], RedisSettings(host="r", port=6379)),
        (
            ["--cache-config=redis,host=r,port=1,user=u,password=p,db=3,socket_timeout=50,tls_enabled=true,cacert=/c"],
            RedisSettings(host="r", port=1, user="u", password="p", db=3, socket_timeout_ms=50, tls=True, cacert="/c"),
        ),
    ],
)  # fmt: skip
def test_what_is_read(given: list[str], settings: object) -> None:
    assert parse([REPOSITORY, *given]).cache == settings


def test_user_and_password_come_from_the_environment_unless_they_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(USER_VARIABLE, "me")
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    found = parse([REPOSITORY, "--cache-config=redis,host=r,port=1,user=other"]).cache
    assert isinstance(found, RedisSettings)
    assert (found.user, found.password) == ("other", "secret")
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--cache-config=local"], "expected NAME,KEY=VALUE"),
        (["--cache-config=local,size"], "expected NAME,KEY=VALUE"),
        (["--cache-config=local,sise=5"], "did you mean size?"),
        (["--cache-config=local,size=x"], "expected a non-negative integer"),
        (["--cache-config=local,size=1"], "Failed to initialize LocalCache: the smallest size is 1024 bytes"),
        (["--cache-config=local,full_key=true"], "config didn't contain a valid 'size' field"),
        (["--cache-config=memcached,size=1"], "no cache is called 'memcached': local and redis are"),
        (["--cache-config=redis,host=r"], "Must at a minimum specify 'host' and 'port'"),
        (["--cache-config=redis,host=r,port=99999"], "must be from 1 to 65535"),
        (["--cache-config=redis,host=r,port=1,socket_timeout=0"], "must be at least 1 millisecond"),
        (["--cache-config=redis,host=r,port=1,cert=c"], "cert and key come together"),
        (["--cache-config=redis,host=r,port=1,tls_enabled=maybe"], "expected true or false"),
        (
            ["--cache-config=local,size=2048", "--cache-config=redis,host=r"],
            "found multiple cache configurations, but only a single cache is currently supported",
        ),
        (["--cache-config=local,size=2048", "--response-cache-byte-size=2048"], "Incompatible flags --response-cache-byte-size and --cache-config"),
        (["--response-cache-byte-size=2048", "--cache-config=local,size=2048"], "Incompatible flags --response-cache-byte-size and --cache-config"),
        (["--response-cache-byte-size=5"], "the smallest size is 1024 bytes"),
        (["--response-cache-byte-size=x"], "expected an integer"),
    ],
)  # fmt: skip
def test_what_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse([REPOSITORY, *given])
    assert message in str(raised.value)


def test_a_message_never_shows_a_password() -> None:
    with pytest.raises(UsageError) as raised:
        parse([REPOSITORY, "--cache-config=redis,host=r,port=1,password=secret,more"])
    assert "secret" not in str(raised.value)


def test_settings_without_effect_are_notes() -> None:
    notes = parse([REPOSITORY, "--cache-config=redis,host=r,port=1,pool_size=5", "--cache-directory=/x"]).notes  # fmt: skip
    assert any("redis,pool_size has no effect here" in note for note in notes)
    assert any("--cache-directory has no effect here" in note for note in notes)
