"""Where Naiad answers otherwise than tritonserver 2.51 on purpose, leaf by leaf, each with its reason.

Two kinds: the table describes 2.73, and where 2.51 is older the row decides; and what Naiad does better on purpose (docs/coming-from-triton.md). A difference that stops showing fails its scenario, so this list cannot go stale.
"""

from tests.conformance.comparison.verdict import Difference

_NO_FIRST_RESPONSE = "2.51 predates the family; row 8.23"

_OLDER: tuple[tuple[str, str, str], ...] = (
    *(
        (f"trace settings: {what} an unknown model", "*", "2.51 answers 400; row 9.8: 404")
        for what in ("of", "a change of")
    ),
    ("an output twice", "*", "2.51 takes the second for the first; row 3.20: 400"),
    (
        "header length 'x'",
        "says",
        "2.51 reads it as 0, which is raw mode; row 3.3: 'Unable to parse'",
    ),
    (
        "header length ''",
        "says",
        "2.51 reads it as 0, which is raw mode; row 3.3: 'Unable to parse'",
    ),
    (
        "cache: an error response",
        "*",
        "2.51 keeps an error as a success without outputs; row 14.27: successes only",
    ),
    (
        "cache: an execution that fails",
        "*",
        "2.51 keeps an error as a success without outputs; row 14.27: successes only",
    ),
    ("label file: outside", "*", "2.51 reads any file; 2.73 refuses it (model.cc)"),
    ("nesting of 150", "*", "2.51 has no limit; row 1.12: 100"),
    ("more than 65536 chunks", "status", "2.51 has no limit; row 1.13: 400"),
    (
        "a shape whose product overflows",
        "status",
        "2.51 compares only with the data; row 3.18: 400",
    ),
    ("a shape whose product overflows", "says", "2.51 compares only with the data; row 3.18"),
    ("a forwarded header with a reserved name", "*", "2.51 forwards it; row 1.18: 400"),
    (
        "forwarded metadata with a reserved name",
        "*",
        "2.51 forwards it; row 10.21: INVALID_ARGUMENT",
    ),
    ("ready of an unknown model", "*", "2.51 says 400 for all that is not ready; row 2.8: 404"),
    ("ready of an absent version", "*", "2.51 says 400 for all that is not ready; row 2.8: 404"),
    (
        "errors are JSON",
        "types.*",
        "2.51 calls JSON errors text/plain where its HTTP frontend makes them; row 1.9",
    ),
    ("shared memory is switched off", "*", "2.51 has no --allow-client-shm; row 5.7"),
    ("gRPC shared memory is switched off", "*", "2.51 has no --allow-client-shm; row 5.7"),
    ("unregister is switched off", "*", "2.51 has no --allow-client-shm; row 5.7"),
    ("CUDA registration is switched off", "*", "2.51 has no --allow-client-shm; row 5.7"),
    ("regions: no size", "says", "2.51 compares a size that is not sent; row 5.17: 0 bytes"),
    ("regions: a reserved key", "*", "2.51 knows no reserved keys; row 5.10"),
    (
        "regions: a region in a GPU",
        "says",
        "2.51 is built with GPUs here; row 5.14, CPU-only build",
    ),
    ("regions: gRPC region in a GPU", "says", "2.51 is built with GPUs here; row 5.14"),
    ("execute: parameters", "*", "2.51 predates response parameters; row 3.37"),
    ("gRPC response parameters", "*", "2.51 predates response parameters; row 10.23"),
    ("pb_utils: response", "report*", "2.51 predates response parameters; row 15.13"),
    (
        "pb_utils: triton-dtype",
        "report*",
        "2.51 cannot convert the enum it returns; row 15.11 names the method",
    ),
    (
        "calls: fails",
        "report.code",
        "2.51 makes every error of a call INTERNAL; row 15.21 keeps it",
    ),
    (
        "calls: iterate-error",
        "report.*",
        "2.51 loses an error that is not the last response; row 15.21",
    ),
    ("calls: cancel", "report.*", "2.51 predates ResponseIterator.cancel; row 15.21"),
    ("index with ready that is not a boolean", "*", "2.51 says 500; row 7.1: 400"),
    ("metrics families", "* nv_model_load_duration_secs", "2.51 predates the family; row 8.20"),
    ("latency counters are off", "nv_inference_first_response_*", _NO_FIRST_RESPONSE),
    (
        "families of summaries and of the first response",
        "* nv_inference_first_response_*",
        _NO_FIRST_RESPONSE,
    ),
    ("summaries after requests", "nv_inference_first_response_*", _NO_FIRST_RESPONSE),
    (
        "metrics of several versions",
        "nv_model_load_duration_secs *",
        "2.51 predates the family; row 8.20",
    ),
    (
        "drain",
        "late_gRPC",
        "2.51 serves gRPC until the last request is done; row 10.34: UNAVAILABLE",
    ),
    ("help", "status", "2.51 exits 1; row 17.1: 0"),
    *(
        (
            f"{call} of the name '{name}'",
            "*",
            "2.51 looks for it; row 7.14: 400 and what is wrong with it",
        )
        for call, name in (
            ("gRPC load", ""),
            ("gRPC load", " "),
            ("gRPC load", ".."),
            ("gRPC load", "a/b"),
            ("load", "%20"),
            ("load", ".."),
        )
    ),
    (
        'unload with the body {"parameters":{"unload_dependents":1}}',
        "*",
        "2.51 forgets the error before it answers; row 7.26: 500",
    ),
    (
        "unload with the body nope",
        "*",
        "2.51 forgets the error before it answers; a body that is not JSON is 500 as in a load",
    ),
    ("refused: broken_no_backend", "says", "2.51 words it otherwise; row 11.3"),
    (
        "environment refused: outside of the model's folder",
        "served",
        "2.51 follows $$TRITON_MODEL_DIRECTORY/.. anywhere; row 15.30: it must not leave the model's folder",
    ),
    (
        "refused: broken_no_execute",
        "*",
        "2.51 finds out at the first request; row 15.1: a load error",
    ),
)

_STRING_IDS = (
    "2.51 gives the correlation ID as one string more than it is: unexpected number of string elements 2 for inference input "
    "'CORRID'; row 11.27: TYPE_STRING is a datatype of it"
)
_OLDER += (
    (
        "sequence: a text for a number",
        "*",
        "2.51 reads the text's address as a number; row 4.15: 400",
    ),
    ("sequence: a number for a text", "*", "2.51 does not compare the types; row 4.15: 400"),
    ("sequence: texts", "*", _STRING_IDS),
    ("sequence: texts of a batching model", "*", _STRING_IDS),
)

_CODE_LOST = "2.51 forgets the code of an error that a sender sends, and of what a model raises after it asked for one; row "
_NO_VERSION = "2.51 names no version; row "
_OLDER += (
    ("generate: an error", "status", _CODE_LOST + "6.9: its mapped status"),
    ("generate: an error, then a response", "status", _CODE_LOST + "6.9: its mapped status"),
    ("generate: response parameters", "*", "2.51 predates response parameters; row 6.1"),
    ("generate_stream: an error first", "status", _CODE_LOST + "6.10: that of the first response"),
    ("generate_stream: a model that raises first", "status", _CODE_LOST + "15.7: 500"),
    ("generate_stream: a decoupled model that returns", "status", _CODE_LOST + "15.9: an error"),
    (
        "stream: an empty final response that is asked for",
        "*.model_version",
        _NO_VERSION + "10.30: id, name, version",
    ),
    (
        "stream: nothing but an empty final response",
        "*.model_version",
        _NO_VERSION + "10.30: id, name, version",
    ),
    ("stream: an error", "*.model_version", _NO_VERSION + "10.27: name and version too"),
    (
        "stream: an error in the middle",
        "*.model_version",
        _NO_VERSION + "10.27: name and version too",
    ),
    (
        "stream: a model that raises after a response",
        "*.model_version",
        _NO_VERSION + "10.27: name and version too",
    ),
    (
        "generate_stream: of an ordinary model that sends twice",
        "events.*",
        "2.51 sends the exception of the second response as one more response to a request that has its answer; row 15.17",
    ),
    (
        "statistics of many responses",
        "responses*",
        "2.51's python backend reports none; rows 8.6, 15.34",
    ),
)

_LISTED = "2.51 lists no state for a config that it cannot use; row 7.3: UNAVAILABLE and the reason"
_DECIDED: tuple[tuple[str, str, str], ...] = (
    ("index entry of a config that cannot be read", "*", _LISTED),
    (
        "index entry of a model without versions",
        "*",
        "2.51 leaves it out of the index, where its reason is looked for",
    ),
    (
        "namespaces: all statistics",
        "*",
        "Triton looks each model up by its name, and fails at the first ambiguous one",
    ),
    (
        "unload of a model that loaded another one",
        "asked False",
        "Triton's unload_dependents is for ensembles; here also for what a model loaded in its initialize",
    ),
    (
        "load of a model that is in no repository",
        "listed*",
        "Triton lists folders of repositories only; the index says what serves",
    ),
    (
        "index of what is ready",
        "*",
        "2.51 lists the model that stands in two repositories although only READY is asked for; row 7.3",
    ),
    (
        "gRPC index of what is ready",
        "models.duplicated/*",
        "2.51 lists the model that stands in two repositories although only READY is asked for; row 7.3",
    ),
    (
        "later changes are ignored",
        "listed",
        "2.51 reads the folders again for the index; nothing after the start counts here (row 7.29)",
    ),
    (
        "load of a model that fails",
        "unloaded",
        "Triton keeps the failure, and the server is not ready for good; row 7.3: after an unload the reason is unloaded",
    ),
    (
        "readiness under explicit control",
        "failed and unloaded",
        "Triton is not ready for good once a load has failed; row 2.4 ignores what is unloaded",
    ),
    (
        "infer of a decoupled model by a client that takes events",
        "*",
        "/infer of a decoupled model streams when the client accepts events (3.2)",
    ),
    ("OPTIONS /v2", "status", "Naiad answers OPTIONS, as browsers ask before they send"),
    ("HEAD /v2", "status", "Naiad answers HEAD wherever it answers GET"),
    (
        "a needed input missing beside an optional one",
        "*",
        "Triton counts inputs and does not look which are there, so the backend fails; row 4.1 lists missing names",
    ),
    (
        "cancelled in the dynamic batcher's queue",
        "ran",
        "Triton looks at a request once, when it joins a batch, so one cancelled later runs; here none does",
    ),
    (
        "cancelled in the default scheduler's queue",
        "ran",
        "Triton runs a request that was cancelled while it waited; here it is dropped (row 12.16)",
    ),
    (
        "failures",
        "raise.execution_count",
        "row 8.11: successful runs are counted; Triton counts this one",
    ),
    (
        "failures",
        "code:NOT_FOUND.*",
        "row 8.11: a failed request does not count as a success; Triton counts a TritonError as one",
    ),
    (
        "metrics families",
        "* nv_cache_*",
        "a model that asks for a response cache runs without one, so there is nothing to count",
    ),
    (
        "metrics of tagged model",
        "nv_cache_*",
        "a model that asks for a response cache runs without one, so there is nothing to count",
    ),
    (
        "trace files: a request that its model refuses",
        "files*",
        "Triton loses the trace of a request that is refused before it waits; here it is written",
    ),
    (
        "trace files: INT8",
        "files.0.0.tensors.?.data",
        "Triton writes the bytes of INT8 as characters, which is not valid UTF-8 for negative ones; here they are numbers, as of other integers",
    ),
    (
        "sequence: statistics",
        "iterative.*",
        "Triton counts a request each time that its model sees it, and the end of its sequence as a failure; here it is one request",
    ),
)

DIFFERENCES: tuple[Difference, ...] = tuple(Difference(*one) for one in (*_OLDER, *_DECIDED))
