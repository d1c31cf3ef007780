"""A message that is being read from a config file, and where its fields are placed."""

import functools
from typing import Any

import msgspec

from naiad.config.document import FieldPath
from naiad.config.problem import Position

Positions = dict[FieldPath, Position]


class Block(msgspec.Struct, frozen=True):
    """A message that is being read.

    Attributes:
        names: the names of the fields that lead here, for messages to people.
        path: the same with indices and keys, for positions.
        positions: filled with the place of what is read; None for a block that is thrown away.
        guessed: fields that were set under a misspelled name; the right name may still come.
    """

    message: Any
    names: tuple[str, ...]
    path: FieldPath
    positions: Positions | None
    guessed: set[str] = msgspec.field(default_factory=set)

    @property
    def fields(self) -> frozenset[str]:
        """The names of its fields."""
        return _names_of(self.message.DESCRIPTOR)

    @property
    def is_map_entry(self) -> bool:
        """Whether it is an entry of a map: a key and a value."""
        return bool(self.message.DESCRIPTOR.GetOptions().map_entry)

    def place(self, path: FieldPath, position: Position) -> None:
        """Note where something of this block stands."""
        if self.positions is not None:
            self.positions[(*self.path, *path)] = position

    def place_first(self, path: FieldPath, position: Position) -> None:
        """Note where something stands that may be written in several pieces: the first counts."""
        if self.positions is not None:
            self.positions.setdefault((*self.path, *path), position)

    def forget(self, path: FieldPath) -> None:
        """Drop the places of something of this block and of its parts: a later one replaces it."""
        whole = (*self.path, *path)
        for known in [known for known in self.positions or () if known[: len(whole)] == whole]:
            assert self.positions is not None
            del self.positions[known]

    def line_of(self, name: str) -> int | None:
        """The line on which a field of this block was set."""
        if self.positions is None:
            return None
        position = self.positions.get((*self.path, name))
        return None if position is None else position.line

    def has(self, field: Any) -> bool:
        """Whether a field that occurs once was set, as far as protobuf can tell: 0, "" and false look like unset ones."""
        if field.has_presence:
            return bool(self.message.HasField(field.name))
        return bool(getattr(self.message, field.name))

    def scratch(self) -> "Block":
        """A block of the same type that is thrown away: what is in it is checked, but counts for nothing."""
        return Block(type(self.message)(), self.names, self.path, None)

    def child(self, message: Any, name: str) -> "Block":
        """The block of a field of this one that occurs once."""
        return Block(message, (*self.names, name), (*self.path, name), self.positions)

    def item(self, name: str) -> "Block":
        """A new block at the end of a repeated field of this one."""
        items = getattr(self.message, name)
        message = items.add()
        return Block(
            message, (*self.names, name), (*self.path, name, len(items) - 1), self.positions
        )

    def entry(self, name: str) -> "Block":
        """A new entry of a map of this block; it is placed on its own until its key is known."""
        message = getattr(self.message, name).GetEntryClass()()
        return Block(message, (*self.names, name), (), {})


@functools.cache
def _names_of(descriptor: Any) -> frozenset[str]:
    return frozenset(descriptor.fields_by_name)


def is_map(field: Any) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
