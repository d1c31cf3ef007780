"""What a model's exception looks like to people."""

import asyncio
import concurrent.futures
import pathlib

import pytest

from naiad.backends.python.failures import describe, raised

NOWHERE = pathlib.Path("/nowhere")


def raised_in(text: str, folder: pathlib.Path = NOWHERE) -> str:
    """What is reported of the exception that some code raises, as if it were `folder`/model.py."""
    code = compile(text, str(folder / "model.py"), "exec")
    try:
        exec(code, {"asyncio": asyncio})
    except Exception as error:  # noqa: BLE001 - whatever it is
        return describe(error, folder)
    raise AssertionError("it raised nothing")


def test_the_models_own_lines_come_first_and_a_cause_follows() -> None:
    reported = raised_in(
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e"
    )
    first, _, cause = reported.partition("\n\nCaused by: ")
    assert first.startswith("ValueError: outer\n\nAt:\n  /nowhere/model.py(4): <module>\n")
    assert cause == "ZeroDivisionError: division by zero\n\nAt:\n  /nowhere/model.py(2): <module>"


def test_a_recursion_is_reported_in_few_lines() -> None:
    reported = raised_in("def f(n):\n    f(n - 1) if n else 1 / 0\nf(200)")
    assert reported.startswith("ZeroDivisionError: ")
    assert "/nowhere/model.py(2): f (201 times)" in reported
    assert len(reported.splitlines()) < 12


def test_a_long_way_is_cut() -> None:
    reported = raised_in(
        "\n".join(
            [*(f"def f{n}():\n    f{n + 1}()" for n in range(60)), "def f60():\n    1/0", "f0()"]
        )
    )
    assert reported.splitlines()[-1].endswith("more places)")
    assert len(reported.splitlines()) < 50


def test_the_exceptions_of_a_group_are_reported() -> None:
    reported = raised_in(
        "async def bad():\n"
        "    raise KeyError('the reason')\n"
        "async def main():\n"
        "    async with asyncio.TaskGroup() as group:\n"
        "        group.create_task(bad())\n"
        "asyncio.run(main())"
    )
    assert reported.startswith("ExceptionGroup: unhandled errors in a TaskGroup")
    assert "Among them: KeyError: 'the reason'\n\nAt:\n  /nowhere/model.py(2): bad" in reported


@pytest.mark.parametrize("failure", ["RuntimeError", "SystemExit"])
def test_an_exception_that_cannot_be_shown_is_still_reported(failure: str) -> None:
    reported = raised_in(
        f"class Odd(Exception):\n    def __str__(self):\n        raise {failure}('no text')\nraise Odd()"
    )
    assert reported.startswith(f"Odd: (its text cannot be shown: __str__ raised {failure})")


def test_in_the_main_thread_of_a_test_ctrl_c_is_not_the_model_s() -> None:
    assert not issubclass(KeyboardInterrupt, raised())
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        assert issubclass(KeyboardInterrupt, beside.submit(raised).result())
