"""The line of a log that explains an end. tests/seams holds the formats against the server's own."""

import pytest

from naiad_operator.status.log_lines import error_line

E = "E1125 23:23:09.838454 29675 server.py:198] "
I = "I1125 23:23:09.900000 29675 command.py:60] "  # noqa: E741 - the letter of the level


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", ""),
        ("\n \n", ""),
        ("starting\nstopped\n", "stopped"),
        ("error: no bucket\nstopped\n", "error: no bucket"),
        (f'{E}"no bucket"\n{I}"0 errors"\n{I}"stopped"\n', "no bucket"),
        (f'{I}"1 error"\n{I}"stopped"\n', "1 error"),
        (f"{E}no quotes\n", "no quotes"),
        (f'{E}"cannot start"\nTraceback (most recent call last):\n  File "x"\nValueError: no key\n', "ValueError: no key"),
        (f'{E}"cannot start"\nTraceback (most recent call last):\n  File "x"\nKeyboardInterrupt\n', "cannot start"),
        (f'{E}"cannot start"\n    {E}"what a client sent"\n', "cannot start"),
        ('{"level": "ERROR", "msg": "no bucket"}\n{"level": "info", "msg": "stopped"}', "no bucket"),
        ('{"message": "an error"}\n{"message": "stopped"}', "an error"),
        ('{"message": 3, "level": "error"}', '{"message": 3, "level": "error"}'),
        ('{"message": "cut of', '{"message": "cut of'),
        ("{" * 100_000, "{" * 100_000),
    ],
)  # fmt: skip
def test_the_line_that_explains_an_end(log: str, expected: str) -> None:
    assert error_line(log) == expected
