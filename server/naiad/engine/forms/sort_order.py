"""The order in which the reference has equal values and NaN: that of `std::sort` of the GNU C++ library, with "higher" as the comparison. Pure.

`std::sort` keeps no order of equal values, so which of them come first follows from the steps of its algorithm (introsort: partitions around the median of
three, then insertion). They are repeated here for the few outputs in which it matters.
"""

import typing

_THRESHOLD = 16
"""Parts of so many elements are left to the insertion at the end."""


def sort_order(values: typing.Sequence[float]) -> list[int] | None:
    """The indexes of the values, the highest one first; None where the reference would do something else: sort a heap, or leave its memory because of NaN."""
    indexes = list(range(len(values)))
    sorting = _Sorting(values, indexes)
    try:
        if sorting.partition(0, len(indexes), 2 * max(len(indexes).bit_length() - 1, 0)):
            sorting.insert()
            return indexes
    except IndexError:
        pass
    return None


class _Sorting:
    """One sort, of `indexes` in place. `values[i] > values[j]` is the whole of the comparison: with NaN it is never true."""

    def __init__(self, values: typing.Sequence[float], indexes: list[int]) -> None:
        self._values = values
        self._indexes = indexes

    def partition(self, first: int, last: int, depth: int) -> bool:
        """`__introsort_loop`; false where it would go too deep."""
        while last - first > _THRESHOLD:
            if not depth:
                return False
            depth -= 1
            cut = self._cut(first, last)
            if not self.partition(cut, last, depth):
                return False
            last = cut
        return True

    def _cut(self, first: int, last: int) -> int:
        """`__unguarded_partition_pivot`: the median of three goes to the front, and the rest around it."""
        values, indexes = self._values, self._indexes
        low, middle, high = first + 1, first + (last - first) // 2, last - 1
        a, b, c = (values[indexes[each]] for each in (low, middle, high))
        if a > b:
            chosen = middle if b > c else high if a > c else low
        else:
            chosen = low if a > c else high if b > c else middle
        indexes[first], indexes[chosen] = indexes[chosen], indexes[first]
        pivot = values[indexes[first]]
        left, right = first + 1, last
        while True:
            while values[indexes[left]] > pivot:
                left += 1
            right -= 1
            while pivot > values[indexes[right]]:
                right -= 1
            if left >= right:
                return left
            indexes[left], indexes[right] = indexes[right], indexes[left]
            left += 1

    def insert(self) -> None:
        """`__final_insertion_sort`: only the first elements are compared with the very first one."""
        values, indexes = self._values, self._indexes
        for position in range(1, len(indexes)):
            index = indexes[position]
            value = values[index]
            if position < _THRESHOLD and value > values[indexes[0]]:
                indexes.insert(0, indexes.pop(position))
                continue
            place = position
            while value > values[indexes[place - 1]]:
                indexes[place] = indexes[place - 1]
                place -= 1
                if not place:
                    raise IndexError
            indexes[place] = index
