"""Regular expression functions and SIMILAR TO."""

import re
from collections.abc import Callable
from typing import Final

from kpg.runtime.functions.regex import Regexp, compile_posix, compile_similar
from kpg.runtime.functions.registry import MemoizedFunction, Overload, Rule, register_scalar
from kpg.runtime.functions.set_returning_functions import match_groups, regexp_split
from kpg.runtime.functions.type_rules import signature_rule
from kpg.runtime.types import BOOLEAN, INTEGER, TEXT, Type, array
from kpg.runtime.values.arrays import Array, array_of

REFERENCE: Final = re.compile(r"\\(.?)", re.DOTALL)


def _rules(result: Type, *lists: tuple[Type, ...]) -> list[Rule]:
    return [signature_rule(result, *types) for types in lists]


def _define(
    name: str,
    accepts: str,
    doc: str,
    examples: dict[str, str],
    rules: list[Rule],
    code: Callable[..., object],
) -> None:
    register_scalar(
        name, accepts, doc, examples, *(Overload(rule, MemoizedFunction(lambda call: code)) for rule in rules)
    )


def _reject_global(options: str, name: str) -> str:
    if "g" in options:
        raise ValueError(f'{name}() does not support the "global" option')
    return options


def regexp_like(string: str, pattern: str, options: str = "") -> bool:
    """Check whether the expression matches anywhere in the text."""
    return compile_posix(pattern, _reject_global(options, "regexp_like")).python.search(string) is not None


def regexp_imatch(string: str, pattern: str) -> bool:
    """Check whether the expression matches anywhere in the text, ignoring case."""
    return compile_posix(pattern, "i").python.search(string) is not None


def regexp_replace(string: str, pattern: str, new: str, *more: object) -> str:
    """Replace matches.

    The last arguments are options, or a start, a number n (0 for all matches) and options.
    """
    start, ordinal, options = 1, 1, ""
    match more:
        case (str() as letters,):
            ordinal, options = (0 if "g" in letters else 1), letters.replace("g", "")
        case (int() as start,):
            pass
        case (int() as start, int() as ordinal):
            pass
        case (int() as start, int() as ordinal, str() as letters):
            options = letters.replace("g", "")
    _check_minimum(start, "start")
    if ordinal < 0:
        raise ValueError('invalid value for parameter "n"')
    expression = compile_posix(pattern, options)
    result, end = [string[: start - 1]], start - 1
    for count, found in enumerate(expression.matches(string, start - 1), 1):
        if ordinal in (0, count):
            result += [string[end : found.start()], expand_replacement(new, found)]
            end = found.end()
        if count == ordinal:
            break
    return "".join((*result, string[end:]))


def expand_replacement(replacement: str, source: re.Match[str]) -> str:
    r"""Return the replacement text with ``\&`` and ``\1`` to ``\9`` replaced by the match and its groups."""

    def expand(reference: re.Match[str]) -> str:
        name = reference[1]
        if name == "&":
            return source[0]
        if name in "123456789" and name:
            return (source[int(name)] or "") if int(name) <= source.re.groups else ""
        return "\\" if name in ("\\", "") else "\\" + name

    return REFERENCE.sub(expand, replacement)


def _check_minimum(value: int, name: str, least: int = 1) -> None:
    if value < least:
        raise ValueError(f'invalid value for parameter "{name}": {value}')


def regexp_count(string: str, pattern: str, start: int = 1, options: str = "") -> int:
    """Count the matches of the expression."""
    _check_minimum(start, "start")
    expression = compile_posix(pattern, _reject_global(options, "regexp_count"))
    return sum(1 for _ in expression.matches(string, start - 1))


def _nth_match(expression: Regexp, string: str, start: int, number: int) -> re.Match[str] | None:
    _check_minimum(start, "start")
    _check_minimum(number, "n")
    for place, found in enumerate(expression.matches(string, start - 1), 1):
        if place == number:
            return found
    return None


def regexp_instr(
    string: str,
    pattern: str,
    start: int = 1,
    number: int = 1,
    end: int = 0,
    options: str = "",
    group: int = 0,
) -> int:
    """Return the position of the n-th match or a group of it, or behind it; 0 if there is none."""
    if end not in (0, 1):
        raise ValueError(f'invalid value for parameter "endoption": {end}')
    _check_minimum(group, "subexpr", 0)
    result = _nth_match(
        compile_posix(pattern, _reject_global(options, "regexp_instr")), string, start, number
    )
    if result is None or group > result.re.groups or result.start(group) < 0:
        return 0
    return (result.end(group) if end else result.start(group)) + 1


def regexp_substr(
    string: str, pattern: str, start: int = 1, number: int = 1, options: str = "", group: int = 0
) -> str | None:
    """Return the n-th match or a group of it; NULL if there is none."""
    _check_minimum(group, "subexpr", 0)
    result = _nth_match(
        compile_posix(pattern, _reject_global(options, "regexp_substr")), string, start, number
    )
    return None if result is None or group > result.re.groups else result[group]


def substring(string: str, pattern: str) -> str | None:
    """Return the first match, or its first group; NULL if there is none."""
    result = compile_posix(pattern).search(string)
    return None if result is None else result[1 if result.re.groups else 0]


def is_similar(string: str, pattern: str, escape: str = "\\") -> bool:
    """Check whether the whole text matches a SIMILAR TO pattern."""
    return compile_similar(pattern, escape).python.search(string) is not None


def similar_substring(string: str, pattern: str, escape: str = "\\") -> str | None:
    """Return the match of the middle part of a SIMILAR TO pattern; NULL if the text does not match."""
    result = compile_similar(pattern, escape).search(string)
    return None if result is None else result[1 if result.re.groups else 0]


def regexp_match(string: str, pattern: str, options: str = "") -> Array | None:
    """Return the groups of the first match, or the whole match; NULL if there is none."""
    result = compile_posix(pattern, _reject_global(options, "regexp_match")).search(string)
    return None if result is None else match_groups(result)


def regexp_split_to_array(string: str, pattern: str, options: str = "") -> Array:
    """Return the parts of the text between matches."""
    return array_of(regexp_split(string, pattern, options))


_S, _N = TEXT, INTEGER
_define(
    "regexp_match",
    "text, a regular expression and optionally options",
    "What the parts of the expression in parentheses match first, or all of it, as an array.",
    {"regexp_match('foobarbequebaz', '(bar)(beque)')": "'{bar,beque}'::text[]"},
    _rules(array(TEXT), (_S, _S), (_S, _S, _S)),
    regexp_match,
)
_define(
    "regexp_split_to_array",
    "text, a regular expression and optionally options",
    "The parts of the text between matches, as an array.",
    {"regexp_split_to_array('hello world', '\\s+')": "'{hello,world}'::text[]"},
    _rules(array(TEXT), (_S, _S), (_S, _S, _S)),
    regexp_split_to_array,
)
_define(
    "regexp_like",
    "text, a regular expression and optionally options",
    "Whether the expression matches anywhere in the text.",
    {"regexp_like('Hello World', 'world$', 'i')": "TRUE", "'abc' ~ 'b.'": "TRUE", "'abc' ~ '^b'": "FALSE"},
    _rules(BOOLEAN, (_S, _S), (_S, _S, _S)),
    regexp_like,
)
_define(
    "regexp_imatch",
    "text and a regular expression",
    "Whether the expression matches anywhere in the text, in upper or lower case.",
    {"'Thomas' ~* 'T.*MA'": "TRUE"},
    _rules(BOOLEAN, (_S, _S)),
    regexp_imatch,
)
_define(
    "regexp_replace",
    "text, a regular expression, what replaces it, and optionally a place, a number and options",
    "The first match replaced, or the n-th, or all (option g, or number 0).",
    {
        "regexp_replace('Thomas', '.[mN]a.', 'M')": "'ThM'",
        "regexp_replace('foobarbaz', 'b(..)', 'X\\1Y', 'g')": "'fooXarYXazY'",
    },
    _rules(
        TEXT, (_S, _S, _S), (_S, _S, _S, _S), (_S, _S, _S, _N), (_S, _S, _S, _N, _N), (_S, _S, _S, _N, _N, _S)
    ),
    regexp_replace,
)
_define(
    "regexp_count",
    "text, a regular expression, and optionally a place to start at and options",
    "How often the expression matches.",
    {"regexp_count('ABCABCAXYaxy', 'A.', 1, 'i')": "4"},
    _rules(INTEGER, (_S, _S), (_S, _S, _N), (_S, _S, _N, _S)),
    regexp_count,
)
_define(
    "regexp_instr",
    "text, a regular expression, and optionally a place, a number, 1 for the end, options and a part",
    "Where the n-th match begins, or ends; 0 if there is none.",
    {"regexp_instr('ABCDEF', 'C(.)(..)', 1, 1, 0, 'i', 2)": "5"},
    _rules(INTEGER, *(((_S, _S, _N, _N, _N, _S, _N)[:size]) for size in range(2, 8))),
    regexp_instr,
)
_define(
    "regexp_substr",
    "text, a regular expression, and optionally a place, a number, options and a part",
    "The n-th match, or a part of it; NULL if there is none.",
    {"regexp_substr('ABCDEF', 'C(.)(..)', 1, 1, 'i', 2)": "'EF'", "regexp_substr('a', 'x')": "NULL"},
    _rules(TEXT, *(((_S, _S, _N, _N, _S, _N)[:size]) for size in range(2, 7))),
    regexp_substr,
)
_define(
    "similar_to",
    "text, a pattern and optionally an escape character",
    "Whether the whole text matches: % is any string, _ any character, the rest a regular expression.",
    {"'abc' SIMILAR TO '%(b|d)%'": "TRUE", "'abc' SIMILAR TO 'a'": "FALSE"},
    _rules(BOOLEAN, (_S, _S), (_S, _S, _S)),
    is_similar,
)
_define(
    "similar_substring",
    'text, a pattern of SIMILAR TO with its middle between #" if # is the escape character',
    "What the middle of the pattern matches.",
    {"substring('foobar' SIMILAR '%#\"o_b#\"%' ESCAPE '#')": "'oob'"},
    _rules(TEXT, (_S, _S), (_S, _S, _S)),
    similar_substring,
)
