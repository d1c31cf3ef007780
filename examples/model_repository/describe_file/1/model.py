"""Says of each file which kind it is and how many words it has, by asking `magika` and `word_count` at the same time."""

import asyncio
import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils

_BLOCK, _WINDOW, _PADDING = 4096, 1024, 256


class TritonPythonModel:
    """The class that the python backend looks for."""

    def initialize(self, args):
        """Read the names of the kinds, and begin to count files by kind."""
        # A model reads only files of its own: from an object store each model is downloaded by itself.
        folder = pathlib.Path(pb_utils.get_model_dir()).parent
        self.kinds = (folder / "labels.txt").read_text().split()
        # The family is kept as well: its metrics leave the page with it.
        self.family = pb_utils.MetricFamily(
            name="described_files", description="Files by kind", kind=pb_utils.MetricFamily.COUNTER
        )
        self.files = {}

    async def execute(self, requests):
        """Answer every request of a batch; none waits for another one's answers."""
        return await asyncio.gather(*map(self._answer, requests))

    async def _answer(self, request):
        files = pb_utils.get_input_tensor_by_name(request, "FILE").as_numpy()
        numbers = np.array([features(each) for each in files[:, 0]], dtype=np.int32)
        texts = np.array(
            [[each.decode("utf-8", "replace").encode()] for each in files[:, 0]], object
        )
        kinds, words = await asyncio.gather(
            ask("magika", "bytes", numbers, "target_label"),
            ask("word_count", "TEXT", texts, "WORDS"),
        )
        # What goes wrong in another model comes as a response, not as an exception.
        for response in (kinds, words):
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
        best = pb_utils.get_output_tensor_by_name(kinds, "target_label").as_numpy().argmax(axis=1)
        names = [self.kinds[each] for each in best]
        for name in names:
            self._count(name)
        kind = np.array([[name.encode()] for name in names], dtype=object)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("KIND", kind),
                pb_utils.get_output_tensor_by_name(words, "WORDS"),
            ]
        )

    def _count(self, kind):
        if kind not in self.files:
            self.files[kind] = self.family.Metric(labels={"kind": kind})
        self.files[kind].increment(1)


def ask(model, name, values, output):
    """Ask another model: a future of its response."""
    return pb_utils.InferenceRequest(
        model_name=model, inputs=[pb_utils.Tensor(name, values)], requested_output_names=[output]
    ).async_exec()


def features(content):
    """The 2048 numbers that magika looks at: both ends of a file, without white space around it."""
    ends = content[:_BLOCK].lstrip()[:_WINDOW], content[-_BLOCK:].rstrip()[-_WINDOW:]
    begin, end = (list(each) for each in ends)
    return begin + [_PADDING] * (_WINDOW - len(begin)) + [_PADDING] * (_WINDOW - len(end)) + end
