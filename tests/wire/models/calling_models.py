"""Models for tests of calls between models: each a few lines, all with IN and OUT, FP32 [2]."""

import pathlib
import textwrap

_CONFIG = """\
backend: "python"
input {{ name: "IN" data_type: TYPE_FP32 dims: 2 }}
output {{ name: "OUT" data_type: TYPE_FP32 dims: 2 }}
instance_group {{ count: {count} kind: KIND_CPU }}
{more}
"""

_HEAD = """\
import asyncio
import os
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def ask(model, request, **more):
    tensor = pb_utils.get_input_tensor_by_name(request, "IN")
    return pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["OUT"], inputs=[tensor], **more
    )


def answer(*values):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(values, np.float32))])


def handed_on(response):
    if response.has_error():
        return pb_utils.InferenceResponse(error=response.error())
    return pb_utils.InferenceResponse(response.output_tensors())


class TritonPythonModel:
"""

_DECOUPLED = "model_transaction_policy { decoupled: true }"

_CALLS = """
def execute(self, requests):
    return [handed_on(ask("{target}", request).exec()) for request in requests]
"""
_CALLS_ASYNC = """
async def execute(self, requests):
    return [handed_on(await ask("{target}", request).async_exec()) for request in requests]
"""

_MODELS: dict[str, tuple[str, str]] = {
    "double": (
        "",
        """
        def execute(self, requests):
            return [answer(*(2 * each.inputs()[0].as_numpy())) for each in requests]
        """,
    ),
    "through": ("", _CALLS.format(target="double")),
    "ping": ("", _CALLS.format(target="pong")),
    "pong": ("", _CALLS.format(target="ping")),
    "self": ("", _CALLS_ASYNC.format(target="self")),
    "aping": ("", _CALLS_ASYNC.format(target="apong")),
    "apong": ("", _CALLS.format(target="aping")),
    "together": (
        _DECOUPLED,
        """
        async def execute(self, requests):
            senders = [each.get_response_sender() for each in requests]
            if not hasattr(self, "all_are_here"):
                self.here, self.all_are_here = 0, asyncio.Event()
            self.here += len(requests)
            if self.here % 50 == 0:
                self.all_are_here.set()
            await self.all_are_here.wait()
            for sender in senders:
                sender.send(answer(1, 1), FINAL)
        """,
    ),
    "fifty": (
        "",
        """
        async def execute(self, requests):
            asked = [ask("together", requests[0]).async_exec(decoupled=True) for _ in range(50)]
            found = [next(iter(each)) for each in await asyncio.gather(*asked)]
            return [answer(sum(not each.has_error() for each in found), 0)]
        """,
    ),
    "endless": (
        _DECOUPLED,
        """
        def execute(self, requests):
            for request in requests:
                threading.Thread(target=self.go_on, args=(request.get_response_sender(),)).start()

        def go_on(self, sender):
            while not sender.is_cancelled():
                sender.send(answer(1, 2))
                time.sleep(0.01)
            print("endless: cancelled", flush=True)
            sender.send(flags=FINAL)
        """,
    ),
    "some": (
        "",
        """
        def execute(self, requests):
            responses = ask("endless", requests[0]).exec(decoupled=True)
            got = [next(responses) for _ in range(3)]
            responses.cancel()
            rest = list(responses)
            return [answer(len(got), len(rest[-1].output_tensors()))]
        """,
    ),
    "pool": (
        "",
        """
        def execute(self, requests):
            from concurrent.futures import ThreadPoolExecutor

            asked = [ask("double", requests[0]) for _ in range(4)]
            with ThreadPoolExecutor(4) as threads:
                found = [each.result() for each in [threads.submit(one.exec) for one in asked]]
            return [answer(sum(not each.has_error() for each in found), 0)]
        """,
    ),
    "forks": (
        "",
        """
        def initialize(self, args):
            self.family = pb_utils.MetricFamily("forks", "Children", pb_utils.MetricFamily.COUNTER)
            self.metric = self.family.Metric()

        def execute(self, requests):
            asked = ask("double", requests[0])
            children = []
            for _ in range(4):
                child = os.fork()
                if child == 0:
                    self.ask_and_end(asked, requests[0])
                children.append(child)
            assert not any(asked.exec().has_error() for _ in range(20))
            ended = [os.waitpid(child, 0)[1] for child in children]
            return [answer(ended.count(0), self.metric.value())]

        def ask_and_end(self, asked, request):
            status = 1
            try:
                answered = not any(asked.exec().has_error() for _ in range(20))
                self.metric.increment(1)
                del self.family
                if answered and ask("absent", request).exec().has_error():
                    status = 0
            finally:
                os._exit(status)
        """,
    ),
    "spawns": (
        "",
        """
        def execute(self, requests):
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor

            spawn = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=spawn) as processes:
                return [answer(*processes.map(TritonPythonModel.squared, [3, 4]))]

        @staticmethod
        def squared(number):
            return number**2
        """,
    ),
    "late": (
        _DECOUPLED,
        """
        def execute(self, requests):
            for request in requests:
                threading.Thread(target=self.work, args=(request,)).start()

        def work(self, request):
            asked = ask("double", request)
            request.get_response_sender().send(handed_on(asked.exec()), FINAL)
        """,
    ),
    "outlives": (
        "",
        """
        def execute(self, requests):
            return [handed_on(next(iter(ask("late", requests[0]).exec(decoupled=True))))]
        """,
    ),
    "writes": (
        "",
        """
        def execute(self, requests):
            mine = np.array([1, 2], np.float32)
            asked = pb_utils.InferenceRequest(
                model_name="double", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", mine)]
            )
            output = asked.exec().output_tensors()[0].as_numpy()
            output += 1
            mine += 1
            return [answer(*(output + mine))]
        """,
    ),
    "big": (
        "",
        """
        def execute(self, requests):
            words = np.array([b"x" * 1_000_000, b"", "é".encode()], np.object_)
            asked = pb_utils.InferenceRequest(
                model_name="words", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", words)]
            )
            back = asked.exec().output_tensors()[0].as_numpy()
            return [answer(sum(map(len, back)), int((back == words).all()))]
        """,
    ),
    "dies": (
        "",
        """
        def execute(self, requests):
            os._exit(3)
        """,
    ),
    "survives": ("", _CALLS.format(target="dies")),
    "again": (
        "",
        """
        def execute(self, requests):
            for request in requests:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            return [None] * len(requests)
        """,
    ),
    "keeps": (
        "",
        """
        def initialize(self, args):
            self.family = pb_utils.MetricFamily("kept_total", "Kept", pb_utils.MetricFamily.COUNTER)
            self.metric = self.family.Metric(labels={"who": "keeps"})

        def execute(self, requests):
            self.metric.increment(len(requests))
            return [answer(self.metric.value(), 0) for _ in requests]
        """,
    ),
    "brings": (
        "",
        """
        def initialize(self, args):
            if not pb_utils.is_model_ready("brought"):
                pb_utils.load_model("brought")

        def execute(self, requests):
            return [handed_on(ask("brought", request).exec()) for request in requests]
        """,
    ),
    "brought": (
        "",
        """
        def execute(self, requests):
            return [answer(7, 7) for _ in requests]
        """,
    ),
    "leaves": (
        "",
        """
        def execute(self, requests):
            pb_utils.unload_model("leaves")
            return [answer(8, int(pb_utils.is_model_ready("leaves")))]
        """,
    ),
    "renews": (
        "",
        """
        def execute(self, requests):
            os.utime(__file__)
            pb_utils.load_model("renews")
            return [answer(9, int(pb_utils.is_model_ready("renews")))]
        """,
    ),
}

_WORDS = """\
backend: "python"
input { name: "IN" data_type: TYPE_STRING dims: -1 }
output { name: "OUT" data_type: TYPE_STRING dims: -1 }
"""
_WORDS_MODEL = """
def execute(self, requests):
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy())])
        for each in requests
    ]
"""


def write(root: pathlib.Path) -> pathlib.Path:
    """Lay them all out; `root` is made."""
    for name, (more, body) in _MODELS.items():
        _write(root / name, _CONFIG.format(count=1, more=more), body)
    _write(root / "words", _WORDS, _WORDS_MODEL)
    return root


NEEDS: dict[str, tuple[str, ...]] = {
    "through": ("double",),
    "ping": ("pong",),
    "pong": ("ping",),
    "aping": ("apong",),
    "fifty": ("together",),
    "some": ("endless",),
    "pool": ("double",),
    "forks": ("double",),
    "late": ("double",),
    "outlives": ("late", "double"),
    "writes": ("double",),
    "big": ("words",),
    "survives": ("dies",),
}
"""Whom a model asks."""


def _write(folder: pathlib.Path, config: str, body: str) -> None:
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    text = _HEAD + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
    (folder / "1" / "model.py").write_text(text)
