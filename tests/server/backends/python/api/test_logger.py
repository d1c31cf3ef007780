"""The loggers of models: they have their names and levels, and Python keeps none of them."""

import logging

import pytest

from naiad.backends.python.api.logger import model_logger


def test_lines_of_a_model_carry_its_name_and_reach_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    model_logger("resnet").info("ready")
    model_logger("").info("all")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("naiad.models.resnet", "ready"),
        ("naiad.models", "all"),
    ]


def test_levels_are_those_of_the_log_also_when_they_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = model_logger("resnet")
    for level, lines in ((logging.WARNING, 0), (logging.DEBUG, 2), (logging.WARNING, 0)):
        with caplog.at_level(level, "naiad"):
            caplog.clear()
            logger.debug("detail")
            logger.info("line")
            assert len(caplog.records) == lines


def test_python_keeps_no_logger_for_a_model_that_has_gone() -> None:
    before = len(logging.root.manager.loggerDict)
    for number in range(1000):
        model_logger(f"m{number}").info("hello")
    assert len(logging.root.manager.loggerDict) == before
    assert model_logger.cache_info().currsize <= 256
