"""The kinds of messages between the server and a worker process; how they travel is in `link`."""

LOAD, BATCH, CLOSE, ONE_SHOT, WARM_UP = 1, 2, 3, 4, 5
"""Calls of the server: load the model, execute a batch, close the instance, call a function (one-shot), run the warmup samples: on the link of
each instance, behind LOAD or ADD."""

LOADED, REFUSED, OUTCOME, DONE, CLOSED = 17, 18, 19, 20, 21
"""Returns of a worker: the model, or an added instance, is loaded, that failed, the outcome of a batch, the result of the function, the
instance is closed."""

NOTIFICATIONS = 64
"""Kinds from here on are notifications."""

GET_READY, CANCEL, PAUSE, RESUME, RESULT, CREDIT, PING, ERROR = 64, 65, 66, 67, 68, 69, 70, 71
ASK_ALIVE, ADD = 72, 73
RELEASE, OWNER_ENDED, TO_HOST, SHARE = 74, 75, 76, 77
LOG_LEVEL = 78
"""Notifications of the server. GET_READY: is the model ready. CANCEL, PAUSE, RESUME: the request of this number, or its responses while
its client does not read. RESULT, ERROR: the reply to the REQUEST of this number, or why it gets none. CREDIT: bytes of responses that were
received. PING: do coroutines run. ASK_ALIVE: does the worker hear this. ADD: make an instance, which has the link
whose socket comes along; its header is `{"place": …, "instance": …}`. RELEASE: no process uses the tensor of this number on a GPU any more. OWNER_ENDED:
the process of this number has ended, whose memory this one may have opened. TO_HOST: the call of this number is to be made again with its tensors in
the host's memory. SHARE: the memory file that comes along, for this slot, or a client's shared memory object; on the link of an instance, before the BATCH that
refers to it (`tensors/shared_slots.py`, `tensors/region_files.py`). LOG_LEVEL: what is logged is this much from now on, as a level of Python's."""

READY, RESPONSE, REQUEST, PONG, ENDS, ALIVE, WARMING, CALL = 80, 81, 82, 83, 84, 85, 86, 87
RETURNED = 88
"""Notifications of a worker. READY: the answer to GET_READY, with 0 or 1 as its number. RESPONSE: a response to the request of this number.
REQUEST: a call of the model to the server (see `asking.py`); CALL: the same of the thread that executes the batch, which waits for the reply on the
instance's own socket. PONG: coroutines run. ENDS: it ends with the next message, and why. ALIVE: the answer
to ASK_ALIVE, on the control socket, with 1 as its number where a debugger for Python is loaded. WARMING: one more iteration of a warmup sample
begins. RETURNED: this process does not use the tensors of these numbers any more, 8 bytes each, which are on a GPU and belong to other processes."""
