"""How lines are shortened for what is printed of a story that failed."""

import pytest

from e2e import failure


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('2026-11-23T15:47:57.130999Z {"level": "warning", "object": "a/b", "message": "no right"}', "15:47:57.130 warning [a/b] no right"),
        ('2026-11-23T15:47:57.130999Z {"level": "info", "message": "started"}', "15:47:57.130 info started"),
        ("2026-11-23T15:47:57.130999Z plain {text}", "2026-11-23T15:47:57.130999Z plain {text}"),
        ('2026-11-23T15:47:57.130999Z {"n": 1}', '2026-11-23T15:47:57.130999Z {"n": 1}'),
        ("2026-11-23T15:47:57.130999Z 5", "2026-11-23T15:47:57.130999Z 5"),
        ("", ""),
    ],
)  # fmt: skip
def test_lines_of_json_are_shown_in_words(line: str, shown: str) -> None:
    assert failure.readable(line) == shown


@pytest.mark.parametrize(
    ("line", "unready"),
    [
        ("ingress traefik-1 0/1 CrashLoopBackOff 5 (2m ago) 5m", True),
        ("ingress traefik-1 1/1 Running 0 5m", False),
        ("story-1 demo-1 0/1 Pending 0 5m", False),
        ("default job-1 0/1 Completed 0 5m", False),
    ],
)
def test_pods_of_other_namespaces_count_when_they_do_not_serve(line: str, *, unready: bool) -> None:
    assert failure.is_unready(line.split(), ["story-1"]) is unready
