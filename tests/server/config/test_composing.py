"""An ensemble and the models of its steps, in the reference's words (rows 14.2, 14.3, 14.5, 14.10)."""

import msgspec
import pytest

from naiad.config.model_config import ModelConfig
from naiad.config.resolving import composing
from naiad.core.datatypes import INT32
from tests.support.ensembles import ensemble, model, step
from tests.support.inferences import make_spec

A = model("a", "i", "o")
CHAIN = ensemble("x", "y", step("a", "i=x", "o=t"), step("b", "i=t", "o=y"))


def wrong(config: ModelConfig, *models: ModelConfig) -> list[str]:
    _, found = composing.bound(config, {each.name: {1: each} for each in models})
    return [each.message for each in found]


def test_an_ensemble_takes_over_what_it_needs_of_its_models() -> None:
    b = model("b", "i j?", "o", max_batch_size=0)
    b = msgspec.structs.replace(b, inputs=(make_spec("i", -1, 1), make_spec("j", optional=True)))
    config, found = composing.bound(CHAIN, {"a": {1: A}, "b": {1: b}})
    assert found == []
    assert config.ensemble is not None
    composed = [each.composing for each in config.ensemble.steps]
    assert composed[0] is not None
    assert composed[1] is not None
    assert [each.max_batch_size for each in composed if each is not None] == [8, 0]
    assert composed[1].dims == {"i": (-1, 1), "j": (1,)}
    assert composed[1].optional == {"j"}
    assert not config.decoupled
    assert config.message.HasField("model_transaction_policy")
    assert not CHAIN.message.HasField("model_transaction_policy")


def with_input(config: ModelConfig, *dims: int) -> ModelConfig:
    return msgspec.structs.replace(config, inputs=(make_spec("i", *dims),))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            msgspec.structs.replace(
                model("b", "", "o"),
                inputs=(msgspec.structs.replace(make_spec("i"), datatype=INT32),),
            ),
            "in ensemble E, ensemble tensor t: inconsistent data type: TYPE_FP32 is inferred from model a while TYPE_INT32 is inferred from model b",
        ),
        (
            with_input(model("b", "i", "o"), 2, 3),
            "in ensemble E, ensemble tensor t: inconsistent shape: [-1,1] is inferred from model a while [-1,2,3] is inferred from model b",
        ),
        (
            model("b", "k", "o"),
            "in ensemble E, ensemble tensor t is mapping to non-existing input i in model b",
        ),
        (
            model("b", "i", "p"),
            "in ensemble E, ensemble tensor y is mapped from non-existing output o in model b",
        ),
        (
            model("b", "i k", "o"),
            "in ensemble E, input k in model b is not mapped to any ensemble tensors",
        ),
        (
            model("b", "i", "o", max_batch_size=4),
            "ensemble E allows maximum batch size 8, but it contains model b which only allows maximum batch size to be 4",
        ),
    ],
)
def test_models_that_do_not_agree_are_refused(second: ModelConfig, message: str) -> None:
    assert wrong(CHAIN, A, second)[0] == message


@pytest.mark.parametrize(
    "second",
    [
        with_input(model("b", "i", "o"), -1),
        with_input(model("b", "i", "o", max_batch_size=0), -1, 1),
        model("b", "i", "o", max_batch_size=0),
        model("b", "i j?", "o p"),
    ],
)
def test_free_dimensions_batch_dimensions_and_what_is_not_mapped_may_differ(
    second: ModelConfig,
) -> None:
    assert wrong(CHAIN, A, second) == []


def test_a_version_that_is_not_loaded_is_refused() -> None:
    config = ensemble("x", "y", step("a", "i=x", "o=y", version=3))
    _, (found,) = composing.bound(config, {"a": {1: A, 2: A}})
    assert found.message == "ensemble 'E' depends on 'a' whose required version 3 is not loaded"
    assert found.suggestion == "step 0: write model_version: -1 for the latest one, or one of 1, 2"


def test_a_version_is_the_one_that_the_step_names_or_the_latest() -> None:
    old, new = A, model("a", "i", "o", decoupled=True)
    for version, decoupled in ((-1, True), (1, False), (2, True)):
        config = ensemble("x", "y", step("a", "i=x", "o=y", version=version))
        bound, found = composing.bound(config, {"a": {1: old, 2: new}})
        assert (bound.decoupled, found) == (decoupled, [])


def test_what_comes_from_two_decoupled_models_cannot_be_joined() -> None:
    a, b = (model(name, "i", "o", decoupled=True) for name in "ab")
    c = model("c", "p q", "o")
    joined = ensemble(
        "x",
        "y",
        step("a", "i=x", "o=t"),
        step("b", "i=x", "o=u"),
        step("c", "p=t q=u", "o=y"),
    )
    assert wrong(joined, a, b, c) == [
        "in ensemble E, step of model 'c' receives inputs originated from different decoupled models"
    ]
    assert wrong(joined, a, model("b", "i", "o"), c) == [
        "in ensemble E, step of model 'c' receives inputs originated from different decoupled models"
    ]
    assert wrong(joined, model("a", "i", "o"), model("b", "i", "o"), c) == []
    two = ensemble("x", "t y", step("a", "i=x", "o=t"), step("b", "i=x", "o=y"))
    assert wrong(two, a, model("b", "i", "o")) == [
        "in ensemble E, step of model 'E' receives inputs originated from different decoupled models"
    ]
    behind = ensemble("x", "y", step("a", "i=x", "o=t"), step("b", "i=t", "o=y"))
    bound, found = composing.bound(behind, {"a": {1: a}, "b": {1: b}})
    assert (bound.decoupled, found) == (True, [])
