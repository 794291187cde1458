"""Whatever the text, the answer is a program or a DatalogError that can be shown."""

import json
import random
import re
from pathlib import Path

import pytest

from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.datalog.check import check
from kpg.compiler.datalog.diagnostics import to_json
from kpg.compiler.rules.core import Program, program_text
from kpg.compiler.rules.strata import strata
from kpg.runtime.errors import DatalogError
from kpg.runtime.types import DATE, INTEGER, TEXT, ColumnDef, Schema, decimal
from tests.model.datalog import Diverges, run

DECLARATIONS = """
.type Sub <: number .type Rec = [h: number, t: Rec] .type Adt = A {x: number} | B {s: symbol, r: Adt} | Z {}
.decl p(x: number) .decl q(x: number, y: symbol) .decl r(x: Rec, y: Sub) .decl a(x: Adt, f: float)
.decl n() .decl u(x: unsigned) .decl i(x: number, y: number) inline .decl e(x: number, y: number) eqrel
.decl m(x: number, w: number)
"""
RELATIONS = {"p": 1, "q": 2, "r": 2, "a": 2, "n": 0, "u": 1, "i": 2, "e": 2, "m": 2, "emp": 4, "v": 1}
FUNCTORS = ("cat", "strlen", "substr", "to_number", "to_string", "ord", "min", "max", "range", "upper", "abs")
OPERATORS = ("+", "-", "*", "/", "%", "^", "band", "bshl", "lor")
SCRAPS = (
    *'()[]{},.;:!<>=+-*^%$@#"\\\n',
    ":-",
    "?-",
    "//",
    "/*",
    "*/",
    ".decl",
    ".type",
    ".comp",
    ".init",
    ".plan",
    ".input",
    ".pragma",
    "#define F(x) x",
    "#if 1\n",
    "count",
    "nil",
    "as",
    "inline",
    "é",
    "\x00",
)


def catalog() -> Catalog:
    found = Catalog()
    columns = (
        ColumnDef("id", INTEGER),
        ColumnDef("name", TEXT),
        ColumnDef("day", DATE),
        ColumnDef("pay", decimal(15, 2)),
    )
    found.add(TableEntry("emp", Schema(columns)))
    found.add(ViewEntry("v", Schema((ColumnDef("id", INTEGER),)), None))
    return found


class Writer:
    """Random programs that parse, mostly; of ``numbers`` only, the types are right too."""

    def __init__(self, seed: int, *, numbers: bool = False) -> None:
        self.random = random.Random(seed)
        self.numbers = numbers

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def many(self, least: int, most: int, separator: str, make: object) -> str:
        assert callable(make)
        return separator.join(str(make()) for _ in range(self.random.randint(least, most)))

    def expression(self, depth: int = 0) -> str:
        simple = ("x", "x", "y", "z", "w", "_", "1", "0", "-3", "2u", "1.5", '"s"', "nil", "$Z", "$k")
        if self.numbers:
            simple = ("x", "x", "y", "z", "w", "1", "0") if depth else ("x", "x", "y", "_", "1")
        if depth > 2 or self.random.random() < 0.6:
            return self.pick(*simple)

        def inner() -> str:
            return self.expression(depth + 1)

        match 1 + 6 * self.random.randrange(2) if self.numbers else self.random.randrange(8):
            case 0:
                return f"{self.pick(*FUNCTORS)}({self.many(1, 3, ', ', inner)})"
            case 1 | 2:
                return f"({inner()} {self.pick(*OPERATORS)} {inner()})"
            case 3:
                return f"[{inner()}, {inner()}]"
            case 4:
                return f"$A({inner()})" if self.random.random() < 0.5 else f"$B({inner()}, {inner()})"
            case 5:
                return f"as({inner()}, {self.pick('Sub', 'Rec', 'number', 'Adt', 'Nix')})"
            case 6:
                return f"-{inner()}"
            case _:
                function = self.pick(
                    "count", "sum x", "min y", "max z", "sum w" if self.numbers else "mean w"
                )
                return f"{function} : {{ {self.body(depth + 2)} }}"

    def atom(self, depth: int = 0) -> str:
        name = self.pick(*(("p", "i", "e", "m", "n") if self.numbers else RELATIONS))
        arity = RELATIONS[name] + (self.random.random() < 0.03)
        return f"{name}({', '.join(self.expression(depth + 1) for _ in range(arity))})"

    def literal(self, depth: int) -> str:
        match self.random.randrange(10):
            case 0:
                return f"!{self.atom(depth)}"
            case 1 | 2:
                operator = self.pick("=", "=", "!=", "<", ">=")
                return f"{self.expression(depth)} {operator} {self.expression(depth)}"
            case 3 if depth < 2:
                return f"({self.body(depth + 1)} ; {self.body(depth + 1)})"
            case 4 if not self.numbers:
                return self.pick("true", 'match("a.*", y)', "starts_with(y, y)", "!(p(x), p(y))", "upper(y)")
            case _:
                return self.atom(depth)

    def body(self, depth: int = 0) -> str:
        return self.many(1, 4, ", ", lambda: self.literal(depth))

    def well_typed(self) -> str:
        """A rule whose variables x, y, z, w are bound."""

        def head() -> str:
            name = self.pick("p", "m", "e", "i")
            return f"{name}({', '.join(self.expression(1) for _ in range(RELATIONS[name]))})"

        heads = self.many(1, 2, ", ", head)
        return f"{heads} :- p(x), e(y, z), q(w, _), {self.body()}."

    def statement(self) -> str:
        if self.numbers and self.random.random() < 0.8:
            return self.well_typed()
        match self.random.randrange(14):
            case 0:
                return f"{self.atom()}."
            case 1:
                return f"?- {self.body()}."
            case 2:
                return f"{self.pick('+', '-')}{self.atom()}."
            case 3:
                return (
                    f"m(x, {self.pick('min', 'max', 'sum', 'count')}({self.expression()})) :- {self.body()}."
                )
            case 4:
                return f"{self.atom()}, {self.atom()} :- {self.body()}."
            case 5:
                return self.pick(".output p", ".input q", ".query q(b, f)", ".printsize i", ".plan (1)")
            case _:
                return f"{self.atom()} :- {self.body()}."

    def program(self) -> str:
        return DECLARATIONS + self.many(1, 4, "\n", self.statement)

    def damaged(self) -> str:
        text = list(self.program())
        for _ in range(self.random.randint(1, 6)):
            at = self.random.randrange(len(text))
            text[at : at + self.random.randint(0, 3)] = self.pick(*SCRAPS)
        return "".join(text)


def survives(text: str) -> bool:
    """Whether the text is a program; anything but a DatalogError fails the test."""
    try:
        checked = check(text, catalog())
    except DatalogError as error:
        assert str(error)
        json.dumps(to_json(error.diagnostics))
        assert all(one.span is not None for one in error.diagnostics)
        return False
    program = checked.program
    assert program_text(program).count(":-") <= len(program.rules)
    order = strata(program.relations, program.rules)
    assert sum(len(stratum.rules) for stratum in order) == len(program.rules)
    return True


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("numbers", [False, True])
def test_random_programs(seed: int, numbers: bool) -> None:
    programs = [Writer(1000 * seed + number, numbers=numbers).program() for number in range(60)]
    assert sum(map(survives, programs)) >= (5 if numbers else 0)


FACTS = """
p(1). p(2). p(0). q(1, "a"). q(2, "b"). e(1, 2). e(0, 1). m(1, 2). m(2, 2). n(). i(1, 1). i(2, 0).
"""
PARTIAL = ("^", "/", "%", "bshl", "band", "lor", "*")
"""What may fail, or makes ever larger numbers."""


def accepted(text: str) -> Program | None:
    try:
        return check(text, catalog()).program
    except DatalogError:
        return None


def test_inlining_changes_no_relation() -> None:
    compared = 0
    for number in range(400):
        text = Writer(number, numbers=True).program() + FACTS
        if any(part in text.replace(DECLARATIONS, "") for part in PARTIAL):
            continue
        inlined, plain = accepted(text), accepted(text.replace("y: number) inline", "y: number)"))
        if inlined is None or plain is None:
            continue
        try:
            expected = run(plain)
        except Diverges:
            continue
        found = run(inlined)
        for name in found.keys() & expected.keys():
            assert found[name] == expected[name], text
        compared += 1
    assert compared >= 10


@pytest.mark.parametrize("seed", range(2))
def test_damaged_programs(seed: int) -> None:
    for number in range(60):
        survives(Writer(1000 * seed + number).damaged())


def test_noise() -> None:
    numbers = random.Random(1)
    for _ in range(60):
        survives(" ".join(numbers.choice(SCRAPS) for _ in range(numbers.randint(1, 30))))
        survives("".join(chr(numbers.randint(0, 0x2FFF)) for _ in range(20)))


# Programs that work, changed a little

EXAMPLES = Path(__file__).parents[4] / "datalog_examples"
TOKEN = re.compile(r'"[^"\n]*"|\.[a-z_]+|[\w?]+|:-|\s+|.')
MARKS = '\x00\t\r"$\\é\u2028\U0001f600\ufeff _'


class Mutator:
    """Texts made of the tokens of the examples, mostly in their order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*/*.dl"))]
        self.tokens = [token for text in self.texts for token in TOKEN.findall(text) if not token.isspace()]

    def text(self) -> str:
        tokens = TOKEN.findall(self.random.choice(self.texts))
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randrange(len(tokens))
            match self.random.randrange(6):
                case 0:
                    tokens[at : at + self.random.randint(1, 3)] = []
                case 1:
                    tokens[at:at] = [self.random.choice(self.tokens)]
                case 2:
                    tokens[at] = self.random.choice(self.tokens)
                case 3:
                    tokens[at:at] = tokens[at : at + self.random.randint(1, 20)]
                case 4:
                    kept = tokens[at][: self.random.randint(0, len(tokens[at]))]
                    tokens[at] = kept + self.random.choice(MARKS)
                case _:
                    tokens[at:] = ["x"]
            tokens = tokens or ["x"]
        return "".join(tokens)


@pytest.mark.parametrize("seed", range(2))
def test_mutated_examples(seed: int) -> None:
    mutator = Mutator(seed)
    for _ in range(100):
        survives(mutator.text())


DEEP = 20_000
LARGE = {
    "parentheses": "p(" + "(" * DEEP + "1" + ")" * DEEP + ").",
    "sums": "p(" + "+".join(["1"] * DEEP) + ").",
    "signs": "p(" + "-" * 250 + "x) :- p(x).",
    "negations": "p(1) :- " + "!" * DEEP + "p(1).",
    "powers": "p(" + "^".join(["1"] * DEEP) + ").",
    "groups": "p(1) :- " + "(" * DEEP + "p(1)" + ")" * DEEP + ".",
    "records": "r(" + "[1, " * DEEP + "nil" + "]" * DEEP + ", 1).",
    "aggregates": "p(x) :- x = " + "sum y : { p(y), y = " * 2000 + "1" + "}" * 2000 + ".",
    "alternatives": "p(1) :- " + ", ".join(["(p(1) ; p(2))"] * 30) + ".",
    "arguments": "p(min(" + ", ".join(["1"] * 2000) + ")).",
    "literals": "p(1) :- " + ", ".join(["p(1)"] * 1100) + ".",
    "digits": "p(" + "9" * 100_000 + ").",
    "hexadecimal": "p(0x" + "f" * 100_000 + ").",
    "float": "a($Z, " + "9" * 5000 + ".0).",
    "exponent": "a($Z, 1.0e999999).",
    "components": ".comp C {" * 2000 + "}" * 2000,
    "types": "".join(f".type T{n} <: T{n + 1} " for n in range(3000)) + ".type T3000 <: number",
    "condition": "#if " + "(" * DEEP + "\n#endif",
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_large_is_refused(name: str) -> None:
    assert not survives(DECLARATIONS + LARGE[name])


def test_what_is_large_is_not() -> None:
    assert survives(DECLARATIONS + 'q(1, "' + "x" * 1_000_000 + '").')
    assert survives(DECLARATIONS + "r(" + "[1, " * 200 + "nil" + "]" * 200 + ", 1).")
    assert survives(
        "".join(f".decl s{n}(x: number) s{n}(x) :- s{n + 1}(x). " for n in range(500))
        + ".decl s500(x: number)"
    )


UNFINISHED = (
    "/* p(1).",
    'q(1, "a',
    'q(1, "a\\',
    "p(1",
    "p(1) :- ",
    ".decl",
    ".type A =",
    "p(x) :- x = sum",
    "$",
    "\\",
    "?-",
)


@pytest.mark.parametrize("text", UNFINISHED)
def test_unfinished_texts_are_refused(text: str) -> None:
    assert not survives(DECLARATIONS + text)


@pytest.mark.parametrize(
    "text", ["", "\n", " \t\r\n", "// nothing", "/* nothing */", "\ufeff", "\ufeff.decl s()"]
)
def test_texts_without_statements_are_programs(text: str) -> None:
    assert survives(text)


def test_line_ends_of_other_systems() -> None:
    text = '.decl s(x: symbol)\r\n// a comment\r\ns("é\U0001f600"). /* two\r\nlines */\r\n'
    text += '#define T \\\r\n  "t"\r\ns(T).\r\n'
    assert set(check(text, Catalog()).program.facts["s"]) == {("é\U0001f600",), ("t",)}
    with pytest.raises(DatalogError) as caught:
        check(".decl s(x: symbol)\r\n\r\ns(1).\r\n", Catalog())
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert (span.line, span.column) == (3, 3)
