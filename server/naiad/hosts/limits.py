"""How long a worker may take for what it is told to do, as the model's config says it."""

from naiad.core.record import Record

EXECUTE = "naiad.execute_timeout"
LOAD = "naiad.load_timeout"


class Limit(Record, frozen=True):
    """How long something may take.

    Attributes:
        parameter: of the model's config, which sets it.
        seconds: 0 for as long as it likes.
    """

    parameter: str
    seconds: float


class Limits(Record, frozen=True):
    """What a model's config says of both.

    Attributes:
        execute: of a batch.
        load: of a load, the first one and those of new workers.
    """

    execute: Limit = Limit(EXECUTE, 0)
    load: Limit = Limit(LOAD, 0)
