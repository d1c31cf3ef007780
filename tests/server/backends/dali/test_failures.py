"""DALI's errors, shortened for clients."""

from naiad.backends.dali.failures import reason_of

RUN = """Critical error in pipeline:
Error in CPU operator `nvidia.dali.fn.decoders.image`,
which was used in the pipeline definition with the following traceback:

  File "/home/me/models/jpeg/1/dali.py", line 8, in jpeg
    images = fn.decoders.image(encoded, device="cpu")

encountered:

nvImageCodec failure: '#4'
C++ context: [/opt/dali/dali/operators/decoder.h:140]
Current pipeline object is no longer valid."""


def test_the_operator_and_its_reason_remain() -> None:
    assert (
        reason_of(RuntimeError(RUN)) == "nvidia.dali.fn.decoders.image: nvImageCodec failure: '#4'"
    )


def test_other_texts_stay_on_one_line() -> None:
    text = (
        "Critical error in pipeline:\nUnknown\nerror\nCurrent pipeline object is no longer valid."
    )
    assert reason_of(RuntimeError(text)) == "Unknown error"
    assert reason_of(ValueError("a\n b")) == "a b"
    assert reason_of(RuntimeError("")) == "RuntimeError"
    assert len(reason_of(RuntimeError("x" * 5000))) < 700
