"""What is told to whoever has no answer when the server ends all the same, over HTTP and gRPC alike (rows 1.19, 17.14)."""

from naiad.errors import unavailable

UNANSWERED = unavailable(
    "Server exiting: its exit timeout (--exit-timeout-secs) was over before this request had its answer. Send it to another server"
)

LAST_WORDS_S = 0.5
"""How long clients have to take that before they are cut off."""
