"""What all connections of a listener share."""

import dataclasses

from naiad.protocol.http.access_log import AccessRecorder
from naiad.protocol.http.bridge import AsgiApp
from naiad.protocol.http.framing import ReplyFramer
from naiad.protocol.http.head import HeadCache
from naiad.protocol.http.message import FastRoutes
from naiad.protocol.http.roster import Roster
from naiad.protocol.http.settings import HttpSettings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """One server's worth of collaborators.

    Attributes:
        routes: the fast lane.
        app: everything else.
        settings: limits and times.
        roster: who is connected, and the time.
        heads: header blocks seen before.
        framer: puts replies into bytes.
        recorder: gets every reply for the access log; None when there is no such log.
    """

    routes: FastRoutes
    app: AsgiApp
    settings: HttpSettings
    roster: Roster
    heads: HeadCache
    framer: ReplyFramer
    recorder: AccessRecorder | None
