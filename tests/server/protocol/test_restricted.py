import pytest

from naiad.protocol.restricted import Category, Restriction, restrictions


def test_the_categories_are_those_of_the_command_line() -> None:
    assert [category.value for category in Category] == [
        "health", "metadata", "inference", "shared-memory", "model-config", "model-repository",
        "statistics", "trace", "logging",
    ]  # fmt: skip


def test_what_the_options_said_becomes_a_restriction_a_category() -> None:
    said = {"inference": ("key", "a=b"), "statistics": ("key", "a=b")}
    secret = Restriction(header="key", value="a=b")
    assert restrictions(said) == {Category.INFERENCE: secret, Category.STATISTICS: secret}


def test_an_unknown_category_is_refused() -> None:
    with pytest.raises(ValueError, match="inferense"):
        restrictions({"inferense": ("key", "value")})


@pytest.mark.parametrize(
    ("value", "admitted"), [(b"secret", True), (b"Secret", False), (b"", False), (None, False)]
)
def test_only_the_exact_value_opens_a_call(value: bytes | None, *, admitted: bool) -> None:
    assert Restriction(header="key", value="secret").admits(value) is admitted


def test_a_refusal_names_the_header_and_not_the_value() -> None:
    refusal = Restriction(header="admin-key", value="hush").refusal
    assert refusal.startswith("This API is restricted, expecting header 'admin-key'")
    assert "hush" not in refusal
