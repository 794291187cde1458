"""SQL/JSON's constructors, read as plain calls: JSON_OBJECT, JSON_ARRAY, JSON_OBJECTAGG, JSON_ARRAYAGG.

``JsonCalls`` is a part of the dialect's parser: its methods read what follows the parenthesis.
"""

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from kpg.compiler.sql.call_syntax import Calls, plain, renamed


class JsonCalls(Calls):
    """The constructors, of which NULL ON NULL and ABSENT ON NULL are different functions."""

    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
        **Calls.FUNCTION_PARSERS,
        "JSON_OBJECT": lambda self: self.read_json_object(),
        "JSON_ARRAY": lambda self: self.read_json_array(),
        "JSON_OBJECTAGG": lambda self: self.read_json_object_agg(),
        "JSON_ARRAYAGG": lambda self: self.read_json_array_agg(),
    }

    def read_json_object(self) -> exp.Expr:
        """Names and values, ``a: b`` or ``a VALUE b``; also the function of arrays by the same name."""
        operands: list[exp.Expr | None] = []
        if not self._ends_constructor():
            first = self._parse_bitwise()
            if not self._match(TokenType.COLON) and not self._match_text_seq("VALUE"):
                rest = self._parse_csv(self._parse_bitwise) if self._match(TokenType.COMMA) else []
                return plain("json_object", first, *rest)
            operands += [first, self._json_value()]
            while self._match(TokenType.COMMA):
                operands += self._json_member()
        strict = self._absent_on_null(usually=False)
        unique = self._unique_keys()
        flags = " ".join(word for word, said in (("strict", strict), ("unique", unique)) if said)
        if flags:
            operands = [exp.Literal.string(flags), *operands]
        made = plain("json_object_of" if flags else "json_build_object", *operands)
        return self._returning(renamed("json_object", made))

    def read_json_array(self) -> exp.Expr:
        """Values, or a query of one column."""
        if self._match(TokenType.SELECT, advance=False) or self._match(TokenType.WITH, advance=False):
            return self._array_of_query()
        operands: list[exp.Expr | None] = []
        if not self._ends_constructor():
            operands.append(self._json_value())
            while self._match(TokenType.COMMA):
                operands.append(self._json_value())
        strict = self._absent_on_null(usually=True)
        if strict:
            operands = [exp.Literal.string("strict"), *operands]
        made = plain("json_array_of" if strict else "json_build_array", *operands)
        return self._returning(renamed("json_array", made))

    def read_json_object_agg(self) -> exp.Expr:
        """A name and a value of each row."""
        operands = self._json_member()
        name = "_strict" if self._absent_on_null(usually=False) else ""
        name = ("_unique" if self._unique_keys() else "") + name
        return renamed("json_objectagg", plain(f"{self._json_type()}_object_agg{name}", *operands))

    def read_json_array_agg(self) -> exp.Expr:
        """A value of each row, in the order that ORDER BY says."""
        operand = self._parse_order(self._json_value())
        name = "_strict" if self._absent_on_null(usually=True) else ""
        return renamed("json_arrayagg", plain(f"{self._json_type()}_agg{name}", operand))

    def _ends_constructor(self) -> bool:
        words = ("RETURNING", "NULL", "ABSENT", "WITH", "WITHOUT")
        if self._match(TokenType.R_PAREN, advance=False):
            return True
        follows = self._next is not None and self._next.text.upper() in ("ON", "UNIQUE")
        word = self._curr.text.upper() if self._curr is not None else ""
        return word == "RETURNING" or (word in words and follows)

    def _json_member(self) -> list[exp.Expr | None]:
        name = self._parse_bitwise()
        if not self._match(TokenType.COLON) and not self._match_text_seq("VALUE"):
            self.raise_error("Expecting VALUE")
        return [name, self._json_value()]

    def _json_value(self) -> exp.Expr | None:
        """A value; FORMAT JSON says that a text is JSON already."""
        value = self._parse_assignment()
        if self._match_text_seq("FORMAT", "JSON"):
            return exp.Cast(this=value, to=exp.DataType.build("JSON"))
        return value

    def _absent_on_null(self, *, usually: bool) -> bool:
        if self._match_text_seq("ABSENT", "ON", "NULL"):
            return True
        return not self._match_text_seq("NULL", "ON", "NULL") and usually

    def _unique_keys(self) -> bool:
        if self._match_text_seq("WITHOUT", "UNIQUE"):
            self._match_text_seq("KEYS")
            return False
        found = bool(self._match_text_seq("WITH", "UNIQUE"))
        if found:
            self._match_text_seq("KEYS")
        return found

    def _returning(self, made: exp.Expr) -> exp.Expr:
        if not self._match_text_seq("RETURNING"):
            return made
        type_ = self._parse_types()
        self._match_text_seq("FORMAT", "JSON")
        return exp.Cast(this=made, to=type_)

    def _json_type(self) -> str:
        """The type that an aggregate returns, which is JSON or JSONB."""
        if not self._match_text_seq("RETURNING"):
            return "json"
        type_ = self._parse_types()
        name = "" if type_ is None else type_.sql("postgres").lower()
        if name not in ("json", "jsonb"):
            self.raise_error("RETURNING JSON or JSONB is what an aggregate can")
        return name

    def _array_of_query(self) -> exp.Expr:
        query = self._parse_select()
        column = exp.column("value", "elements")
        names = exp.TableAlias(this=exp.to_identifier("elements"), columns=[exp.to_identifier("value")])
        type_ = self._json_type()
        made = exp.select(plain(f"{type_}_agg_strict", column)).from_(exp.Subquery(this=query, alias=names))
        return exp.Subquery(this=made)
