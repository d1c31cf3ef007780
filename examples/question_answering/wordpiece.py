"""BERT's tokenizer: words and punctuation, then the longest pieces of a vocabulary; each token knows its place in the text."""

import pathlib
import typing
import unicodedata

UNKNOWN = "[UNK]"
_LONGEST_WORD = 100


class Token(typing.NamedTuple):
    """A piece of a text, and its characters there."""

    id: int
    begin: int
    end: int


class WordPiece:
    """Splits texts into the pieces of a vocabulary; a piece that continues a word begins with ##."""

    def __init__(self, pieces: list[str]) -> None:
        self.ids = {piece: number for number, piece in enumerate(pieces)}

    @classmethod
    def read(cls, file: pathlib.Path) -> "WordPiece":
        """The tokenizer of a vocabulary as BERT's are: a piece per line."""
        return cls(file.read_text(encoding="utf-8").split("\n")[:-1])

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text."""
        found: list[Token] = []
        for begin, end in _words(text):
            found += self._pieces(text, begin, end)
        return found

    def _pieces(self, text: str, begin: int, end: int) -> list[Token]:
        """A word's longest pieces from its beginning on; one unknown token if that does not come to its end."""
        letters = [_plain(letter) for letter in text[begin:end]]
        found: list[Token] = []
        at = 0
        while at < len(letters) <= _LONGEST_WORD:
            for stop in range(len(letters), at, -1):
                piece = ("##" if at else "") + "".join(letters[at:stop])
                if piece in self.ids:
                    found.append(Token(self.ids[piece], begin + at, begin + stop))
                    at = stop
                    break
            else:
                break
        return found if at == len(letters) else [Token(self.ids[UNKNOWN], begin, end)]


def _words(text: str) -> list[tuple[int, int]]:
    """Where words begin and end; punctuation stands alone."""
    words: list[tuple[int, int]] = []
    begin = -1
    for at, letter in enumerate(text + " "):
        if letter.isalnum() or unicodedata.combining(letter):
            begin = at if begin < 0 else begin
            continue
        if begin >= 0:
            words.append((begin, at))
            begin = -1
        if not letter.isspace():
            words.append((at, at + 1))
    return words


def _plain(letter: str) -> str:
    """A letter in lower case without its accents."""
    parts = unicodedata.normalize("NFD", letter.lower())
    return "".join(part for part in parts if not unicodedata.combining(part))
