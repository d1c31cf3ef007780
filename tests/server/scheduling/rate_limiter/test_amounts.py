"""How much there is of a resource, and which instances are refused because they could never run (rows 14.18, 14.19)."""

import pytest

from naiad.backends.instance import InstanceSpec
from naiad.errors import InferenceError
from naiad.scheduling.rate_limiter.amounts import ResourceTable
from naiad.scheduling.rate_limiter.keys import ResourceKey
from tests.support.limited import limited_spec

R, S = ResourceKey("R", 0), ResourceKey("S", 0)
R_1, R_ANY = ResourceKey("R", 1), ResourceKey("R", None)


def test_by_default_there_is_as_much_as_the_instance_that_needs_most() -> None:
    table = ResourceTable({})
    small, large = limited_spec(R=2), limited_spec(R=5, S=1)
    table.register([small, large, large])
    assert table.amounts() == {R: 5, S: 1}
    table.unregister([large])
    assert table.amount(R) == 5
    table.unregister([large])
    assert table.amounts() == {R: 2}
    table.unregister([small])
    assert table.amounts() == {}


def test_each_device_has_its_own_and_a_global_one_is_for_all() -> None:
    table = ResourceTable({})
    table.register([limited_spec(R=1), limited_spec(R=3, device=1)])
    table.register([limited_spec(G=2, shared=True), limited_spec(G=4, shared=True, device=1)])
    assert table.amounts() == {R: 1, R_1: 3, ResourceKey("G", None): 4}


@pytest.mark.parametrize(
    ("explicit", "key", "amount"),
    [
        ({R_ANY: 4}, R, 4),
        ({R_ANY: 4}, R_1, 4),
        ({R_ANY: 4, R_1: 6}, R_1, 6),
        ({R_ANY: 4, R_1: 6}, R, 4),
        ({R_ANY: 4, R_1: 3}, R_1, 4),
        ({R_1: 6}, R_ANY, 6),
        ({R_1: 6, R_ANY: 7}, R_ANY, 7),
    ],
)
def test_the_command_line_says_how_much_there_is(
    explicit: dict[ResourceKey, int], key: ResourceKey, amount: int
) -> None:
    table = ResourceTable(explicit)
    table.register([limited_spec(R=1, device=key.device or 0, shared=key.device is None)])
    assert list(table.amounts().values()) == [amount]


def test_an_instance_that_could_never_run_is_refused_and_nothing_is_registered() -> None:
    table = ResourceTable({R_ANY: 2})
    with pytest.raises(
        InferenceError,
        match=r'Resource count for "R" is limited to 2 which will prevent scheduling of one or more model instances, the minimum required '
        r"count is 3\. Start the server with --rate-limit-resource=R:3, or lower",
    ):
        table.register([limited_spec(R=1), limited_spec(R=3)])
    assert table.amounts() == {}


def test_what_the_command_line_does_not_name_does_not_exist() -> None:
    with pytest.raises(InferenceError, match='Resource count for "S" is limited to 0'):
        ResourceTable({R_ANY: 9}).register([limited_spec(S=1)])
    with pytest.raises(InferenceError, match="--rate-limit-resource=R:1:1"):
        ResourceTable({R: 9}).register([limited_spec(R=1, device=1)])


LOCAL, GLOBAL = limited_spec(R=1), limited_spec(R=1, shared=True)


@pytest.mark.parametrize(("first", "second"), [(LOCAL, GLOBAL), (GLOBAL, LOCAL)])
def test_a_name_is_global_for_all_models_or_for_none(
    first: InstanceSpec, second: InstanceSpec
) -> None:
    table = ResourceTable({})
    table.register([first])
    with pytest.raises(
        InferenceError,
        match='Resource "R" is present as both global and device-specific resource',
    ):
        table.register([second])
    table.unregister([first])
    table.register([second])
