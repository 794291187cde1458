"""Checks for what sqlglot's parser accepts and Postgres rejects: reserved words as names, missing parts."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from kpg.compiler.sql.parse.syntax import fail
from kpg.compiler.sql.parse.tokenizer import syntax_error

RESERVED: Final = frozenset(
    (
        *[
            "all",
            "analyse",
            "analyze",
            "and",
            "any",
            "array",
            "as",
            "asc",
            "asymmetric",
            "both",
            "case",
            "cast",
            "check",
            "collate",
            "column",
        ],
        *[
            "constraint",
            "create",
            "deferrable",
            "desc",
            "distinct",
            "do",
            "else",
            "end",
            "except",
            "false",
            "fetch",
            "for",
            "foreign",
            "from",
            "grant",
        ],
        *[
            "group",
            "having",
            "in",
            "initially",
            "intersect",
            "into",
            "lateral",
            "leading",
            "limit",
            "not",
            "null",
            "offset",
            "on",
            "only",
            "or",
            "order",
        ],
        *[
            "placing",
            "primary",
            "references",
            "returning",
            "select",
            "some",
            "symmetric",
            "table",
            "then",
            "to",
            "trailing",
            "true",
            "union",
        ],
        *[
            "unique",
            "using",
            "variadic",
            "when",
            "where",
            "window",
            "with",
            "authorization",
            "binary",
            "collation",
            "concurrently",
            "cross",
        ],
        *[
            "freeze",
            "full",
            "ilike",
            "inner",
            "is",
            "isnull",
            "join",
            "left",
            "like",
            "natural",
            "notnull",
            "outer",
            "overlaps",
            "right",
            "similar",
        ],
        *["tablesample", "verbose"],
    )
)
"""Words that cannot name a table or column, unless quoted."""
NO_BARE_LABEL: Final = frozenset(
    (
        *[
            "array",
            "as",
            "char",
            "character",
            "create",
            "day",
            "except",
            "fetch",
            "filter",
            "for",
            "from",
            "grant",
            "group",
            "having",
            "hour",
            "intersect",
        ],
        *[
            "into",
            "isnull",
            "limit",
            "minute",
            "month",
            "notnull",
            "offset",
            "on",
            "order",
            "over",
            "overlaps",
            "precision",
            "returning",
            "second",
        ],
        *["to", "union", "varying", "where", "window", "with", "within", "without", "year"],
    )
)
"""Words that cannot be a column alias without AS."""


def check_syntax(tree: exp.Expr, tokens: Sequence[Token], text: str) -> None:
    """Raise a syntax error at the first part of a parsed statement that Postgres rejects."""
    suspects: list[exp.Expr] = []
    clauses = 0
    stack = [tree]
    while stack:
        node = stack.pop()
        for part in node.args.values():
            if isinstance(part, exp.Expr):
                stack.append(part)
            elif isinstance(part, list):
                stack += (child for child in part if isinstance(child, exp.Expr))
        match node:
            case exp.Literal():
                continue
            case exp.Identifier(this=str() as word) if word.lower() in SUSPECT_NAMES or _starts_with(
                node, text, "'"
            ):
                suspects.append(node)
            case exp.CTE() | exp.TableAlias(this=None):
                suspects.append(node)
            case exp.Where():
                clauses += 1
            case exp.Join() if _lacks_condition(node):
                fail("JOIN needs a condition", node, text, "add ON or USING, or write CROSS JOIN")
    if suspects:
        places = {token.start: index for index, token in enumerate(tokens)}
        for node in suspects:
            _check_node(node, tokens, places, text)
    _check_words(tokens, text, clauses)


def _check_words(tokens: Sequence[Token], text: str, clauses: int) -> None:
    words = [text[token.start : token.end + 1].lower() for token in tokens]
    distinct = "distinct" in words
    previous = ""
    for index, word in enumerate(words):
        is_suspect = previous in SUSPECT_WORDS or word in SUSPECT_WORDS or (distinct and word in (",", ")"))
        if is_suspect and _is_misplaced(tokens, words, index):
            raise syntax_error(text, tokens[index])
        previous = word
    if words.count("where") > clauses:
        raise syntax_error(text, tokens[len(words) - 1 - words[::-1].index("where")])
    if words.count("when") > words.count("then"):
        raise syntax_error(text, tokens[len(words) - 1 - words[::-1].index("when")])


TYPE_WORDS: Final = frozenset(
    [
        "int",
        "integer",
        "bigint",
        "smallint",
        "text",
        "numeric",
        "decimal",
        "real",
        "date",
        "time",
        "timestamp",
        "boolean",
        "bool",
        "float",
        "interval",
    ]
)
OPERAND_TOKENS: Final = frozenset(
    (TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN)
)
SUSPECT_NAMES: Final = RESERVED | NO_BARE_LABEL


def _lacks_condition(join: exp.Expr) -> bool:
    part = join.args.get
    plain = (part("kind") or part("side")) and part("kind") != "CROSS" and part("method") != "NATURAL"
    return bool(plain) and part("on") is None and not part("using")


def _starts_with(node: exp.Expr, text: str, sign: str) -> bool:
    start = node.meta.get("start")
    return start is not None and text[start] == sign


def _check_node(node: exp.Expr, tokens: Sequence[Token], places: Mapping[int, int], text: str) -> None:
    match node:
        case exp.Identifier():
            index = places.get(node.meta.get("start", -1), -1)
            if index >= 0 and not _is_valid_name(node, tokens, index, text):
                raise syntax_error(text, tokens[index])
        case exp.CTE():
            index = places.get(node.args["alias"].this.meta.get("start", -1), -1)
            if index >= 0 and (token := _token_after_columns(tokens, index + 1)).text.lower() != "as":
                raise syntax_error(text, token)
        case exp.TableAlias(columns=[exp.Identifier() as first, *_]):
            index = places.get(first.meta.get("start", -1), 0)
            raise syntax_error(text, tokens[max(0, index - 1)])


def _token_after_columns(tokens: Sequence[Token], index: int) -> Token:
    """Return the token at the index, or the token after the parentheses that begin there."""
    depth = 0
    for token in tokens[index:]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth and token.text != ")":
            return token
    return tokens[-1]


def _is_valid_name(node: exp.Identifier, tokens: Sequence[Token], index: int, text: str) -> bool:
    """Return whether an identifier can be a name where it stands."""
    match text[tokens[index].start]:
        case '"':
            return True
        case "'":
            return not isinstance(node.parent, exp.Alias | exp.TableAlias)
    word, previous = node.name.lower(), tokens[index - 1].text.lower() if index else ""
    if previous == ".":
        return True
    parent = node.parent
    if isinstance(parent, exp.Alias) and parent.args.get("alias") is node:
        return previous == "as" or word not in NO_BARE_LABEL
    return word not in RESERVED


SUSPECT_WORDS: Final = TYPE_WORDS | {"update", "nothing", "cross", "null", "insert"}
"""Words that can reveal a misplaced keyword."""


def _is_misplaced(tokens: Sequence[Token], words: Sequence[str], index: int) -> bool:
    """Return whether a word is misplaced and sqlglot's parser accepts it."""
    word, previous = words[index], words[index - 1] if index else ""
    match word:
        case "update" | "nothing" if previous not in ("do", "for"):
            return _follows_conflict(words, index)
        case "cross" if previous == "natural":
            return True
        case "null" if previous == "not" and index > 1 and words[0] not in ("create", "alter"):
            return tokens[index - 2].token_type in OPERAND_TOKENS
        case "," | ")" if previous in ("(", ")") and (place := _opening_index(words, index - 1)) > 1:
            on = words[place - 2 : place] == ["distinct", "on"]
            return on and (word == "," or place == index - 1)
        case _ if tokens[index].token_type is TokenType.NUMBER:
            return previous in TYPE_WORDS
        case _:
            return previous == "insert" and index == 1 and word not in ("into", "or", "overwrite")


def _follows_conflict(words: Sequence[str], index: int) -> bool:
    """Return whether a word follows ON CONFLICT in the same parentheses."""
    place = index - 1
    while place > 0 and words[place] not in ("(", ";"):
        if words[place - 1 : place + 1] == ["on", "conflict"]:
            return True
        place = (_opening_index(words, place) if words[place] == ")" else place) - 1
    return False


def _opening_index(words: Sequence[str], index: int) -> int:
    """Return the index of the parenthesis that the one at ``index`` closes."""
    depth = 0
    for place in range(index, -1, -1):
        depth += (words[place] == ")") - (words[place] == "(")
        if depth <= 0:
            return place
    return -1
