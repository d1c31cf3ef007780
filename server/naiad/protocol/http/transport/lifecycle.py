"""The life of an HTTP connection as a table: (state, event) -> (state, actions). Pure.

Nothing else decides which state follows. Whether a connection is idle or has requests in progress is not part of its state: the receiver
and the sender know that, and the connection turns it into the event. `docs/architecture.md` shows the table.
"""

import collections.abc
import enum


class _Member(enum.Enum):
    """A member is one object, so that its address is its hash: the hash of its name is a call of Python code."""

    __hash__ = object.__hash__


class State(_Member):
    """How far a connection has come on its way to the end."""

    OPEN = "open"
    """Takes requests."""
    DRAINING = "draining"
    """The server stops: takes one more request at most, whose response says Connection: close."""
    LAST = "last"
    """Takes no further request; the responses to those it has taken are being sent."""
    EXCESS = "excess"
    """As LAST, and the client has sent more than was taken."""
    REFUSED = "refused"
    """Drops all input; an error is the last response."""
    LINGERING = "lingering"
    """Has sent everything and the end of the stream; reads until the client stops sending."""
    LEAVING = "leaving"
    """The server stops: has sent everything and the end of the stream; reads until the client has both."""
    CLOSING = "closing"
    """The transport closes, after the client has taken what was written."""
    CLOSED = "closed"
    """The socket is closed."""


class Event(_Member):
    """The events in the life of a connection."""

    DRAIN = "the server stops"
    LAST_REQUEST = "no further request is wanted"
    EXCESS_INPUT = "more input after the last request"
    REFUSE = "the input cannot be used"
    ALL_SENT = "everything was sent"
    SENT_EARLY = "everything was sent, the client still sends"
    STOPPED = "everything was sent, the server stops"
    EOF = "the client has finished sending"
    CUT = "aborted"
    LOST = "the socket is closed"


class Action(_Member):
    """What the connection does when it enters the next state."""

    CLOSE = "close after what was written"
    HALF_CLOSE = "end the sending side only"
    ABORT = "close at once"
    ABANDON = "cancel the requests"


Actions = tuple[Action, ...]

TAKING = (State.OPEN, State.DRAINING)
"""Further requests are taken."""
DEAF = (State.REFUSED, State.LINGERING, State.LEAVING, State.CLOSING, State.CLOSED)
"""Input is dropped: a plain close while it still comes would make the kernel destroy the response."""
ENDED = (State.LINGERING, State.LEAVING, State.CLOSING, State.CLOSED)
"""Nothing more is sent."""

_SERVING = (State.OPEN, State.DRAINING, State.LAST, State.EXCESS)
_UNTIL_CLOSED = (*_SERVING, State.REFUSED, State.LINGERING, State.LEAVING, State.CLOSING)

ROWS: tuple[tuple[tuple[State, ...], Event, State | None, Actions], ...] = (
    ((State.OPEN,), Event.DRAIN, State.DRAINING, ()),
    (_UNTIL_CLOSED[1:], Event.DRAIN, None, ()),
    (TAKING, Event.LAST_REQUEST, State.LAST, ()),
    (_UNTIL_CLOSED[2:], Event.LAST_REQUEST, None, ()),
    ((State.LAST,), Event.EXCESS_INPUT, State.EXCESS, ()),
    (_SERVING, Event.REFUSE, State.REFUSED, ()),
    ((*TAKING, State.LAST), Event.ALL_SENT, State.CLOSING, (Action.CLOSE,)),
    ((State.EXCESS, State.REFUSED), Event.ALL_SENT, State.LINGERING, (Action.HALF_CLOSE,)),
    ((*_SERVING, State.REFUSED), Event.SENT_EARLY, State.LINGERING, (Action.HALF_CLOSE,)),
    ((*TAKING, State.LAST), Event.STOPPED, State.LEAVING, (Action.HALF_CLOSE,)),
    ((State.EXCESS, State.REFUSED), Event.STOPPED, State.LINGERING, (Action.HALF_CLOSE,)),
    ((State.LINGERING, State.LEAVING), Event.EOF, State.CLOSING, (Action.CLOSE,)),
    (_UNTIL_CLOSED, Event.CUT, State.CLOSING, (Action.ABORT,)),
    ((State.CLOSING,), Event.ALL_SENT, None, ()),
    ((State.CLOSING,), Event.SENT_EARLY, None, ()),
    ((State.CLOSING,), Event.STOPPED, None, ()),
    (_UNTIL_CLOSED, Event.LOST, State.CLOSED, (Action.ABANDON,)),
)
"""(states, event, next state, actions); None: the state stays."""

TRANSITIONS: dict[tuple[State, Event], tuple[State, Actions]] = {
    (state, event): (following or state, actions)
    for states, event, following, actions in ROWS
    for state in states
}


class IllegalTransition(Exception):  # noqa: N818 - a defect of the server, named for what happened
    """The table has no row for an event in a state."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a connection that is {state.value} cannot get the event '{event.value}'")


_CLOSED = State.CLOSED


def _nothing(_: Actions) -> None:
    """No event follows."""


class Lifecycle:
    """The state of one connection; `entered` is called after every transition, with the actions of its row."""

    __slots__ = ("_entered", "state")

    def __init__(self, entered: collections.abc.Callable[[Actions], None]) -> None:
        self._entered = entered
        self.state = State.OPEN

    def on(self, event: Event) -> None:
        """Follow the row of an event.

        Raises:
            IllegalTransition: there is no such row; nothing changes.
        """
        row = TRANSITIONS.get((self.state, event))
        if row is None:
            raise IllegalTransition(self.state, event)
        self.state, actions = row
        self._entered(actions)
        if self.state is _CLOSED:
            self._entered = _nothing  # the connection is freed without the garbage collector
