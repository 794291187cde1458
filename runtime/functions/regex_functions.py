"""Functions of regular expressions, and SIMILAR TO."""

import re
from collections.abc import Callable
from typing import Final

from kpg.runtime.functions.regex import Regexp, compile_posix, similar
from kpg.runtime.functions.registry import Memoized, Overload, Rule, scalar
from kpg.runtime.functions.set_returning_functions import groups, regexp_split
from kpg.runtime.functions.type_rules import fixed
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, Type, array
from kpg.runtime.values.arrays import Array, of

REFERENCE: Final = re.compile(r"\\(.?)", re.DOTALL)


def _types(result: Type, *lists: tuple[Type, ...]) -> list[Rule]:
    return [fixed(result, *types) for types in lists]


def _define(
    name: str,
    accepts: str,
    doc: str,
    examples: dict[str, str],
    rules: list[Rule],
    code: Callable[..., object],
) -> None:
    scalar(name, accepts, doc, examples, *(Overload(rule, Memoized(lambda call: code)) for rule in rules))


def _without_all(options: str, name: str) -> str:
    if "g" in options:
        raise ValueError(f'{name}() does not support the "global" option')
    return options


def like(string: str, pattern: str, options: str = "") -> bool:
    """Whether the expression matches anywhere in the text."""
    return compile_posix(pattern, _without_all(options, "regexp_like")).python.search(string) is not None


def like_any_case(string: str, pattern: str) -> bool:
    """Whether the expression matches anywhere in the text, letters of both cases being the same."""
    return compile_posix(pattern, "i").python.search(string) is not None


def replace(string: str, pattern: str, new: str, *more: object) -> str:
    """Matches replaced: by options, or from a place on, the n-th or all (0), and options."""
    start, number, options = 1, 1, ""
    match more:
        case (str() as letters,):
            number, options = (0 if "g" in letters else 1), letters.replace("g", "")
        case (int() as start,):
            pass
        case (int() as start, int() as number):
            pass
        case (int() as start, int() as number, str() as letters):
            options = letters.replace("g", "")
    _check(start, "start")
    if number < 0:
        raise ValueError('invalid value for parameter "n"')
    expression = compile_posix(pattern, options)
    result, end = [string[: start - 1]], start - 1
    for count, found in enumerate(expression.matches(string, start - 1), 1):
        if number in (0, count):
            result += [string[end : found.start()], expanded(new, found)]
            end = found.end()
        if count == number:
            break
    return "".join((*result, string[end:]))


def expanded(new: str, found: re.Match[str]) -> str:
    """The new text with what was matched in place of ``\\&`` and ``\\1`` to ``\\9``."""

    def one(reference: re.Match[str]) -> str:
        what = reference[1]
        if what == "&":
            return found[0]
        if what in "123456789" and what:
            return (found[int(what)] or "") if int(what) <= found.re.groups else ""
        return "\\" if what in ("\\", "") else "\\" + what

    return REFERENCE.sub(one, new)


def _check(value: int, name: str, least: int = 1) -> None:
    if value < least:
        raise ValueError(f'invalid value for parameter "{name}": {value}')


def count(string: str, pattern: str, start: int = 1, options: str = "") -> int:
    """How often the expression matches."""
    _check(start, "start")
    expression = compile_posix(pattern, _without_all(options, "regexp_count"))
    return sum(1 for _ in expression.matches(string, start - 1))


def _nth(expression: Regexp, string: str, start: int, number: int) -> re.Match[str] | None:
    _check(start, "start")
    _check(number, "n")
    for place, found in enumerate(expression.matches(string, start - 1), 1):
        if place == number:
            return found
    return None


def where(
    string: str,
    pattern: str,
    start: int = 1,
    number: int = 1,
    end: int = 0,
    options: str = "",
    group: int = 0,
) -> int:
    """Where the n-th match, or a part of it, begins, or what follows it; 0 if there is none."""
    if end not in (0, 1):
        raise ValueError(f'invalid value for parameter "endoption": {end}')
    _check(group, "subexpr", 0)
    found = _nth(compile_posix(pattern, _without_all(options, "regexp_instr")), string, start, number)
    if found is None or group > found.re.groups or found.start(group) < 0:
        return 0
    return (found.end(group) if end else found.start(group)) + 1


def part(
    string: str, pattern: str, start: int = 1, number: int = 1, options: str = "", group: int = 0
) -> str | None:
    """The n-th match, or a part of it; NULL if there is none."""
    _check(group, "subexpr", 0)
    found = _nth(compile_posix(pattern, _without_all(options, "regexp_substr")), string, start, number)
    return None if found is None or group > found.re.groups else found[group]


def substring(string: str, pattern: str) -> str | None:
    """What the expression matches first, or its first part in parentheses; NULL if there is nothing."""
    found = compile_posix(pattern).search(string)
    return None if found is None else found[1 if found.re.groups else 0]


def is_similar(string: str, pattern: str, escape: str = "\\") -> bool:
    """Whether the whole text matches a pattern of SIMILAR TO."""
    return similar(pattern, escape).python.search(string) is not None


def similar_part(string: str, pattern: str, escape: str = "\\") -> str | None:
    """What the middle part of a pattern of SIMILAR TO matches; NULL if the text does not match."""
    found = similar(pattern, escape).search(string)
    return None if found is None else found[1 if found.re.groups else 0]


def match(string: str, pattern: str, options: str = "") -> Array | None:
    """What the parts of the expression in parentheses match first, or the whole; NULL if nothing does."""
    found = compile_posix(pattern, _without_all(options, "regexp_match")).search(string)
    return None if found is None else groups(found)


def split_to_array(string: str, pattern: str, options: str = "") -> Array:
    """The parts of the text between matches."""
    return of(regexp_split(string, pattern, options))


_S, _N = TEXT, INTEGER
_define(
    "regexp_match",
    "text, a regular expression and optionally options",
    "What the parts of the expression in parentheses match first, or all of it, as an array.",
    {"regexp_match('foobarbequebaz', '(bar)(beque)')": "'{bar,beque}'::text[]"},
    _types(array(TEXT), (_S, _S), (_S, _S, _S)),
    match,
)
_define(
    "regexp_split_to_array",
    "text, a regular expression and optionally options",
    "The parts of the text between matches, as an array.",
    {"regexp_split_to_array('hello world', '\\s+')": "'{hello,world}'::text[]"},
    _types(array(TEXT), (_S, _S), (_S, _S, _S)),
    split_to_array,
)
_define(
    "regexp_like",
    "text, a regular expression and optionally options",
    "Whether the expression matches anywhere in the text.",
    {"regexp_like('Hello World', 'world$', 'i')": "TRUE", "'abc' ~ 'b.'": "TRUE", "'abc' ~ '^b'": "FALSE"},
    _types(BOOLEAN, (_S, _S), (_S, _S, _S)),
    like,
)
_define(
    "regexp_imatch",
    "text and a regular expression",
    "Whether the expression matches anywhere in the text, in upper or lower case.",
    {"'Thomas' ~* 'T.*MA'": "TRUE"},
    _types(BOOLEAN, (_S, _S)),
    like_any_case,
)
_define(
    "regexp_replace",
    "text, a regular expression, what replaces it, and optionally a place, a number and options",
    "The first match replaced, or the n-th, or all (option g, or number 0).",
    {
        "regexp_replace('Thomas', '.[mN]a.', 'M')": "'ThM'",
        "regexp_replace('foobarbaz', 'b(..)', 'X\\1Y', 'g')": "'fooXarYXazY'",
    },
    _types(
        TEXT, (_S, _S, _S), (_S, _S, _S, _S), (_S, _S, _S, _N), (_S, _S, _S, _N, _N), (_S, _S, _S, _N, _N, _S)
    ),
    replace,
)
_define(
    "regexp_count",
    "text, a regular expression, and optionally a place to start at and options",
    "How often the expression matches.",
    {"regexp_count('ABCABCAXYaxy', 'A.', 1, 'i')": "4"},
    _types(INTEGER, (_S, _S), (_S, _S, _N), (_S, _S, _N, _S)),
    count,
)
_define(
    "regexp_instr",
    "text, a regular expression, and optionally a place, a number, 1 for the end, options and a part",
    "Where the n-th match begins, or ends; 0 if there is none.",
    {"regexp_instr('ABCDEF', 'C(.)(..)', 1, 1, 0, 'i', 2)": "5"},
    _types(INTEGER, *(((_S, _S, _N, _N, _N, _S, _N)[:size]) for size in range(2, 8))),
    where,
)
_define(
    "regexp_substr",
    "text, a regular expression, and optionally a place, a number, options and a part",
    "The n-th match, or a part of it; NULL if there is none.",
    {"regexp_substr('ABCDEF', 'C(.)(..)', 1, 1, 'i', 2)": "'EF'", "regexp_substr('a', 'x')": "NULL"},
    _types(TEXT, *(((_S, _S, _N, _N, _S, _N)[:size]) for size in range(2, 7))),
    part,
)
_define(
    "similar_to",
    "text, a pattern and optionally an escape character",
    "Whether the whole text matches: % is any string, _ any character, the rest a regular expression.",
    {"'abc' SIMILAR TO '%(b|d)%'": "TRUE", "'abc' SIMILAR TO 'a'": "FALSE"},
    _types(BOOLEAN, (_S, _S), (_S, _S, _S)),
    is_similar,
)
_define(
    "similar_substring",
    'text, a pattern of SIMILAR TO with its middle between #" if # is the escape character',
    "What the middle of the pattern matches.",
    {"substring('foobar' SIMILAR '%#\"o_b#\"%' ESCAPE '#')": "'oob'"},
    _types(TEXT, (_S, _S), (_S, _S, _S)),
    similar_part,
)
