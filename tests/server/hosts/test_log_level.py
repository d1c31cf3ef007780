"""How much a worker process logs: the order to load may come after a change of the settings."""

import collections.abc
import logging

import pytest

from naiad.hosts.worker.server_log import LogLevel


@pytest.fixture
def logger() -> collections.abc.Iterator[logging.Logger]:
    logger = logging.getLogger("naiad")
    before = logger.level
    yield logger
    logger.setLevel(before)


def test_the_order_to_load_says_how_much_is_logged_until_the_settings_change(
    logger: logging.Logger,
) -> None:
    level = LogLevel()
    level.ordered(logging.INFO)
    assert logger.level == logging.INFO
    level.told(logging.DEBUG)
    assert logger.level == logging.DEBUG


def test_an_order_that_was_written_before_a_change_does_not_undo_it(logger: logging.Logger) -> None:
    level = LogLevel()
    level.told(logging.DEBUG)
    level.ordered(logging.INFO)
    assert logger.level == logging.DEBUG
