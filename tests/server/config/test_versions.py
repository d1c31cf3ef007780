"""Version folders and version policies (rows 7.39, 7.40)."""

import pytest
from google.protobuf import text_format

from naiad.config.resolving import versions
from naiad.core.messages import model_config_pb2


def test_versions_are_plain_numbers_and_anything_near_is_warned_about() -> None:
    found, warnings = versions.present(
        [
            "10",
            "9",
            "0",
            "01",
            "1.bak",
            "configs",
            "warmup",
            "initial_state",
            "assets",
            "-1",
            "²",
            "9223372036854775807",
            "9223372036854775808",
        ]
    )
    assert found == (0, 9, 10, 9223372036854775807)
    assert [warning.partition("'")[2].partition("'")[0] for warning in warnings] == [
        "01",
        "1.bak",
        "9223372036854775808",
    ]
    assert "leading zeros" in warnings[0]
    assert "rename it to '1'" in warnings[0]


@pytest.mark.parametrize(
    ("policy", "serves", "absent"),
    [
        ("latest { num_versions: 1 }", (7,), ()),
        ("latest { num_versions: 2 }", (3, 7), ()),
        ("latest { num_versions: 9 }", (1, 3, 7), ()),
        ("latest { }", (), ()),
        ("all { }", (1, 3, 7), ()),
        ("specific { versions: [7, 1, 4] }", (1, 7), (4,)),
        ("specific { versions: [] }", (), ()),
    ],
)
def test_a_policy_picks_among_versions_one_three_and_seven(
    policy: str, serves: tuple[int, ...], absent: tuple[int, ...]
) -> None:
    message = text_format.Parse(policy, model_config_pb2.ModelVersionPolicy())
    assert versions.served(message, (1, 3, 7)) == (serves, absent)
