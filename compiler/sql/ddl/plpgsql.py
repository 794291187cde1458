"""PL/pgSQL that only returns: ``BEGIN RETURN x; END``, also by IF, as the query that it is.

Everything else, variables and loops among it, is not for here: then there is no such query.
"""

from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.tokens import tokenize
from kpg.runtime.errors import ProgrammingError

QUOTED: Final = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING, TokenType.BYTE_STRING)


class Beyond(Exception):
    """There is more to the body."""


def query_of(body: str) -> str | None:
    """The text of a query that gives what the body returns; None if there is none."""
    try:
        return _Body(body, tokenize(body)).query()
    except (Beyond, ProgrammingError):
        return None


class _Body:
    """A cursor over the tokens of a body."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.place = 0

    def query(self) -> str:
        self._need("BEGIN")
        if self._word() == "RETURN" and self._word(1) == "QUERY":
            self.place += 2
            found = self._up_to(";")
            self.place += 1
        else:
            found = f"SELECT {self._returned(('END',))}"
        self._need("END")
        if self._word() == ";":
            self.place += 1
        if self.place < len(self.tokens):
            raise Beyond
        return found

    def _word(self, ahead: int = 0) -> str:
        place = self.place + ahead
        if place >= len(self.tokens) or self.tokens[place].token_type in QUOTED:
            return ""
        return self.tokens[place].text.upper()

    def _need(self, word: str) -> None:
        if self._word() != word:
            raise Beyond
        self.place += 1

    def _returned(self, ends: tuple[str, ...]) -> str:
        """The expression that some statements return, which end before one of these words."""
        match self._word():
            case "RETURN":
                self.place += 1
                found = self._up_to(";")
                self.place += 1
            case "IF":
                found = self._chosen(ends)
            case _:
                raise Beyond
        if self._word() not in ends:
            raise Beyond
        return found

    def _chosen(self, ends: tuple[str, ...]) -> str:
        branches: list[tuple[str, str]] = []
        while self._word() in ("IF", "ELSIF", "ELSEIF"):
            self.place += 1
            condition = self._up_to("THEN")
            self.place += 1
            branches.append((condition, self._returned(("ELSIF", "ELSEIF", "ELSE", "END"))))
        otherwise = ""
        if self._word() == "ELSE":
            self.place += 1
            otherwise = self._returned(("END",))
        for word in ("END", "IF", ";"):
            self._need(word)
        if not otherwise:
            otherwise = self._returned(ends)
        whens = " ".join(f"WHEN ({condition}) THEN ({value})" for condition, value in branches)
        return f"CASE {whens} ELSE ({otherwise}) END"

    def _up_to(self, end: str) -> str:
        """The text before a word that is in no brackets and no CASE; there has to be some."""
        start, depth = self.place, 0
        while self.place < len(self.tokens):
            word = self._word()
            if word == end and not depth:
                break
            if word == ";":
                raise Beyond
            depth += (word in ("(", "[", "CASE")) - (word in (")", "]", "END"))
            self.place += 1
        if self.place in (start, len(self.tokens)):
            raise Beyond
        return self.text[self.tokens[start].start : self.tokens[self.place - 1].end + 1]
