"""The rules for the steps of an ensemble that its own config shows (rows 11.29, 11.30, 14.2). Pure.

What depends on the models of its steps is in `config/resolving/composing.py`. Messages begin with the reference's words, a stray quotation mark of two of them included; what follows names the step and the
tensor, and draws the cycle if there is one.
"""

import collections
import collections.abc
from typing import Any

from naiad.config.document import FieldPath
from naiad.config.findings import Findings
from naiad.core.cycles import cycle_through

_FORBIDDEN = (
    ("instance_group", "instance group should not be specified for ensemble"),
    ("optimization", "optimization should not be specified for ensemble"),
    ("model_warmup", "model_warmup can not be specified for ensemble"),
)


def check_ensemble(message: Any, findings: Findings) -> None:
    """Check an ensemble; no effect on other models."""
    if not message.HasField("ensemble_scheduling"):
        is_one = message.platform == "ensemble" and not message.backend  # refused as a pair
        if is_one and findings.trusted(("ensemble_scheduling",)):
            findings.add(
                ("platform",),
                f"ensemble scheduling must be set for ensemble {message.name} whose platform is ensemble",
                "add ensemble_scheduling with its steps",
            )
        return
    if message.platform != "ensemble" and findings.trusted(("platform",)):
        findings.add(
            ("platform",) if message.platform else ("ensemble_scheduling",),
            f"ensemble scheduling cannot be set for model '{message.name}' whose platform is not ensemble",
            'write platform: "ensemble"',
        )
    for field, text in _FORBIDDEN:
        if _has(message, field):
            findings.add((field,), f"{text} '{message.name}'", f"take {field} out")
    if not message.ensemble_scheduling.step:
        if findings.trusted(("ensemble_scheduling", "step")):
            findings.add(
                ("ensemble_scheduling",),
                f"must specify 'step' for ensemble '{message.name}'",
                "add a step for each model",
            )
        return
    if _check_steps(message, findings) and not findings.document.problems:
        _Graph(message, findings).check()


def _has(message: Any, field: str) -> bool:
    if message.DESCRIPTOR.fields_by_name[field].has_presence:
        return bool(message.HasField(field))
    return bool(getattr(message, field))


def _check_steps(message: Any, findings: Findings) -> bool:
    """Check that every step has a model and tensors."""
    complete = True
    for index, step in enumerate(message.ensemble_scheduling.step):
        path: FieldPath = ("ensemble_scheduling", "step", index)
        for field in ("model_name", "input_map", "output_map"):
            if getattr(step, field):
                continue
            complete = False
            if findings.trusted((*path, field)):
                findings.add(
                    path,
                    f"must specify '{field}' in step {index} of ensemble '{message.name}'",
                    "name the model of this step"
                    if field == "model_name"
                    else f'add {field} {{ key: "tensor of the model" value: "tensor of the ensemble" }}',
                )
    return complete


class _Graph:
    """The tensors of an ensemble, between the steps that write and read them."""

    def __init__(self, message: Any, findings: Findings) -> None:
        self._name = message.name
        self._findings = findings
        self._steps = message.ensemble_scheduling.step
        self._inputs = [spec.name for spec in message.input]
        self._outputs = [spec.name for spec in message.output]
        self._writers = dict[str, int]()
        self._readers = collections.defaultdict[str, list[int]](list)

    def check(self) -> None:
        """Check the flow of data through the ensemble."""
        self._link()
        for index, name in enumerate(self._inputs):
            if name not in self._readers and name not in self._writers:
                self._findings.add(
                    ("input", index),
                    f"ensemble input '{name}' for ensemble {self._name}' is not used",
                    f'map it to an input of a step (input_map {{ key: "input of the model" value: "{name}" }}), or take it out',
                )
        ready = self._ready()
        for index, name in enumerate(self._outputs):
            if name not in self._readers and name not in self._writers:
                self._findings.add(
                    ("output", index),
                    f"ensemble output '{name}' for ensemble {self._name}' is not used",
                    f'no step writes it: add output_map {{ key: "output of the model" value: "{name}" }} to a step, or take it out',
                )
            elif name not in ready:
                self._add_unwritten(index, name, ready)
        self._check_unused(ready)

    def _link(self) -> None:
        for index, step in enumerate(self._steps):
            for output, tensor in sorted(step.output_map.items()):
                before = self._writers.get(tensor)
                if before is not None or tensor in self._inputs:
                    what = (
                        "it is an input of the ensemble"
                        if before is None
                        else f"{self._shown(before)} writes it already"
                    )
                    self._findings.add(
                        ("ensemble_scheduling", "step", index, "output_map", output),
                        f"ensemble tensor '{tensor}' can appear in an output map only once for ensemble '{self._name}' step {index}: {what}",
                        "give this output a tensor of another name",
                    )
                self._writers.setdefault(tensor, index)
            for tensor in step.input_map.values():
                self._readers[tensor].append(index)

    def _ready(self) -> set[str]:
        """The tensors that have values in the end."""
        ready = set(self._inputs)
        waiting = dict(enumerate(self._steps))
        while runnable := [
            index for index, step in waiting.items() if ready.issuperset(step.input_map.values())
        ]:
            for index in runnable:
                ready.update(waiting.pop(index).output_map.values())
        return ready

    def _add_unwritten(self, index: int, name: str, ready: set[str]) -> None:
        text = f"output '{name}' for ensemble '{self._name}' is not written"
        source = self._source(name, ready)
        if source != name:
            text += f": at least one of its depending tensors, '{source}', is not connected"
        self._findings.add(("output", index), text, self._why(source))

    def _source(self, name: str, ready: set[str]) -> str:
        """The tensor for whose absence another one is not written."""
        seen = {name}
        while (writer := self._writers.get(name)) is not None:
            inputs = sorted(self._steps[writer].input_map.values())
            following = next(
                (each for each in inputs if each not in ready and each not in seen), None
            )
            if following is None:
                break
            seen.add(following)
            name = following
        return name

    def _why(self, tensor: str) -> str:
        """Why a tensor is not written, and what to do."""
        writer = self._writers.get(tensor)
        if writer is None:
            readers = ", ".join(self._shown(reader) for reader in self._readers[tensor])
            return f"no step writes '{tensor}', which {readers} reads: map an output of a step to it, or make it an input of the ensemble"
        cycle = cycle_through(tensor, self._after) or [tensor]
        first = min(range(len(cycle)), key=lambda at: self._writers[cycle[at]])
        cycle = cycle[first:] + cycle[:first]
        drawn = "".join(f"{self._shown(self._writers[each])} -> '{each}' -> " for each in cycle)
        return f"the steps wait for each other: {drawn}{self._shown(self._writers[cycle[0]])}. Let one of them read another tensor"

    def _after(self, tensor: str) -> list[str]:
        """The tensors that need a tensor."""
        return [
            output
            for reader in self._readers.get(tensor, ())
            for output in sorted(self._steps[reader].output_map.values())
        ]

    def _check_unused(self, ready: set[str]) -> None:
        for index, step in enumerate(self._steps):
            for output, tensor in sorted(step.output_map.items()):
                if tensor in self._readers or tensor in self._outputs:
                    continue
                self._findings.add(
                    ("ensemble_scheduling", "step", index, "output_map", output),
                    f"ensemble tensor '{tensor}' is unused in ensemble '{self._name}'",
                    f"{self._shown(index)} writes it and nothing reads it: take it out of output_map, or make it an output of the ensemble",
                )
        blamed = {self._root(name, ready) for name in self._outputs if name not in ready}
        for tensor, readers in self._readers.items():
            if tensor in ready or tensor in self._outputs or self._root(tensor, ready) in blamed:
                continue
            source = self._source(tensor, ready)
            blamed.add(self._root(tensor, ready))
            self._findings.add(
                ("ensemble_scheduling", "step", readers[0], "input_map"),
                f"ensemble tensor '{source}' is unused in ensemble '{self._name}'",
                self._why(source),
            )

    def _root(self, name: str, ready: set[str]) -> frozenset[str]:
        """The same for all tensors that are not written for one reason: that tensor, or the cycle that it is in."""
        source = self._source(name, ready)
        return frozenset(cycle_through(source, self._after) or (source,))

    def _shown(self, index: int) -> str:
        return f"step {index} (model '{self._steps[index].model_name}')"
