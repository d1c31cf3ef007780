"""Reports travel between the processes of a parallel run, whatever a test has logged."""

import execnet

from tests.parallel import sendable


def test_a_log_line_that_is_not_text_can_be_sent() -> None:
    report = {"sections": [("Captured log", "no file \udcff, ü")], "duration": 0.5, "when": None}
    sent = sendable(report)
    assert sent == {
        "sections": [("Captured log", "no file \\udcff, ü")],
        "duration": 0.5,
        "when": None,
    }
    assert execnet.loads(execnet.dumps(sent)) == sent
