"""An option that the server does not know, as the operator's condition shows it: of the last lines of the log, the one that explains the end."""

import pytest

from naiad import __main__
from naiad_operator.status import pod_failures


def test_a_wrong_option_is_the_line_that_explains_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["naiad", "serve", "--model-repository=/m", "--no-such-option"])
    assert __main__.main() == 1
    line = pod_failures.error_line(capsys.readouterr().err)
    assert line.startswith("naiad serve: error: unrecognized option '--no-such-option'")
