"""What loads took of a memory that they share, with numbers."""

from naiad.engine.memory.shared_growth import SharedGrowth


def test_a_load_by_itself_took_the_growth() -> None:
    growth = SharedGrowth[str]()
    growth.begin("a", weight=7, level=1000)
    assert growth.end("a", level=1300, failed=False) == {"a": 300}
    growth.begin("b", weight=7, level=2000)
    assert growth.end("b", level=2001, failed=False) == {"b": 1}


def test_loads_that_overlap_share_the_growth_by_their_files_once_the_last_one_has_ended() -> None:
    growth = SharedGrowth[str]()
    growth.begin("a", weight=100, level=1000)
    growth.begin("b", weight=300, level=1100)
    assert growth.end("a", level=1200, failed=False) == {}
    growth.begin("c", weight=0, level=1200)
    assert growth.end("b", level=1300, failed=False) == {}
    assert growth.end("c", level=1400, failed=False) == {"a": 100, "b": 300, "c": 0}


def test_loads_without_files_share_equally() -> None:
    growth = SharedGrowth[str]()
    for load in ("a", "b"):
        growth.begin(load, weight=0, level=0)
    assert growth.end("a", level=5, failed=False) == {}
    assert growth.end("b", level=10, failed=False) == {"a": 5, "b": 5}


def test_a_load_that_failed_took_nothing_of_what_the_others_share() -> None:
    growth = SharedGrowth[str]()
    growth.begin("a", weight=1, level=0)
    growth.begin("bad", weight=99, level=0)
    assert growth.end("a", level=50, failed=False) == {}
    assert growth.end("bad", level=50, failed=True) == {"a": 50}


def test_a_memory_that_did_not_grow_says_nothing() -> None:
    growth = SharedGrowth[str]()
    growth.begin("a", weight=1, level=100)
    assert growth.end("a", level=90, failed=False) == {}
    growth.begin("bad", weight=1, level=100)
    assert growth.end("bad", level=200, failed=True) == {}
