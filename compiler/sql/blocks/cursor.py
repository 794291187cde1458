"""A place among the words of a body."""

from typing import Final, NoReturn

from kpg.compiler.sql.blocks.tokens import Token, tokens_of
from kpg.runtime.errors import ProgrammingError, Span

OPENING: Final = ("(", "[", "CASE")
CLOSING: Final = (")", "]", "END")


class Cursor:
    """Words of a body, taken one by one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = tokens_of(text)
        self.place = 0

    @property
    def done(self) -> bool:
        """Whether there are no more."""
        return self.place >= len(self.tokens)

    def peek(self, ahead: int = 0) -> str:
        """A word in capitals, "" at the end and for what is quoted."""
        place = self.place + ahead
        return self.tokens[place].upper if place < len(self.tokens) else ""

    def at(self, *words: str) -> bool:
        """Whether these come next."""
        return all(self.peek(i) == word for i, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """As :meth:`at`, and goes past them."""
        if not self.at(*words):
            return False
        self.place += len(words)
        return True

    def need(self, *words: str) -> None:
        """Go past words that have to be there."""
        for word in words:
            if not self.take(word):
                self.wrong(" ".join(words))

    def name(self) -> str:
        """A name."""
        if self.done or self.tokens[self.place].kind not in ("word", "quoted"):
            self.wrong("a name")
        self.place += 1
        return self.tokens[self.place - 1].name

    def string(self) -> str:
        """A text in quotes."""
        if self.done or self.tokens[self.place].kind != "string":
            self.wrong("a text in quotes")
        self.place += 1
        return unquoted(self.tokens[self.place - 1].text)

    def up_to(self, *ends: str, empty: bool = False) -> str:
        """The text before one of some words that is in no brackets and no CASE."""
        start, depth = self.place, 0
        while not self.done and (depth or self.peek() not in ends):
            word = self.peek()
            if word == ";" and not depth:
                break
            depth += (word in OPENING) - (word in CLOSING and depth > 0)
            self.place += 1
        if self.done or self.peek() not in ends or (self.place == start and not empty):
            self.wrong(" or ".join(ends) if self.place > start else "an expression")
        return self.since(start)

    def since(self, start: int) -> str:
        """The text of the words from one on."""
        if start >= self.place:
            return ""
        return self.text[self.tokens[start].start : self.tokens[self.place - 1].end]

    def listed(self, *ends: str) -> tuple[str, ...]:
        """Expressions with commas between them."""
        found = [self.up_to(",", *ends)]
        while self.take(","):
            found.append(self.up_to(",", *ends))
        return tuple(found)

    def wrong(self, wanted: str = "") -> NoReturn:
        """Raise that the next word is not what was wanted."""
        last = self.done
        if not self.tokens:
            raise ProgrammingError("the body of a function is empty")
        token = self.tokens[-1 if last else self.place]
        where = "at the end of the function" if last else f'at "{token.text}"'
        hint = f"expected {wanted}" if wanted else None
        raise ProgrammingError(
            f"syntax error {where}", span=Span(self.text, token.start, token.end), hint=hint
        )


def unquoted(text: str) -> str:
    """What a text in quotes says."""
    if text.startswith("$"):
        return text[text.index("$", 1) + 1 : text.rindex("$", 0, -1)]
    if text[0] in "eE":
        from kpg.compiler.sql.escapes import escaped

        return escaped(text)
    return text[text.index("'") + 1 : -1].replace("''", "'")
