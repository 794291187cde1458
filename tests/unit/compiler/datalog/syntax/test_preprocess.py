"""Includes, macros and conditionals, and the places that errors in them are shown at."""

import os.path

import pytest

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.preprocessor import File, Setting, Source, preprocess

FILES = {
    "lib/a.dl": '#include "b.dl"\na(1).\n',
    "lib/b.dl": ".once\nb(2).\n",
    "lib/c.dl": "#pragma once\nc(3).\n",
    "lib/loop.dl": '#include "loop.dl"\n',
    "bad.dl": "p(1",
}


def read(path: str) -> str:
    path = os.path.normpath(path)
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


def run(text: str, name: str = "main.dl") -> tuple[Source, Diagnostics]:
    diagnostics = Diagnostics()
    return preprocess(File(name, text), read, diagnostics), diagnostics


def lines(text: str) -> list[str]:
    source, diagnostics = run(text)
    assert diagnostics.entries == []
    return [line.strip() for line in source.text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a("//"). // b\nc(/* d\n */ e).', ['a("//").', "c(", "e)."]),
        ('#define N 3\na(N, NN, "N").', ['a(3, NN, "N").']),
        ("#define F(x, y) g(y, x)\nF(1, h(2, 3)). F.", ["g(h(2, 3), 1). F."]),
        ("#define F(x) x F(x)\nF(1)", ["1 F(1)"]),
        ("#define A B\n#define B A c\nA", ["A c"]),
        ("#define P(x) x##_1\nP(a).", ["a_1."]),
        ("#define LONG a \\\n  b\nLONG", ["a     b"]),
        ("#define A 1\n#undef A\nA", ["A"]),
        ('#define S(x) f(#x, "#x")\nS(a "b")', ['f("a \\"b\\"", "#x")']),
        ("#define P(a, b) a(b)\nP(p,\n  1) q", ["p(1) q"]),
        ("1\n__FILE__ __LINE__", ["1", '"main.dl" 2']),
        ("#define A\n#ifdef A\n1\n#else\n2\n#endif", ["1"]),
        ("#ifndef A\n1\n#else\n2\n#endif", ["1"]),
        ("#if 0\n1\n#elif defined(B)\n2\n#elif !defined(B)\n3\n#else\n4\n#endif", ["3"]),
        ("#if 0\n#if 1\n1\n#endif\n#wrong\n#else\n2\n#endif", ["2"]),
        ("#if -7 / 2 == -3 && -7 % 2 == -1 && 7 / -2 == -3 && 7 % -2 == 1\n1\n#endif", ["1"]),
        ("#if 0 && 1 / 0 || !(1 || 1 % 0)\n1\n#else\n2\n#endif", ["2"]),
        ('#include "lib/a.dl"\n.include "lib/b.dl"\nc.', ["b(2).", "a(1).", "c."]),
        ('#include "lib/c.dl"\n#include "lib/c.dl"\nd.', ["c(3).", "d."]),
        ('#include "lib/b.dl"\n#include "lib/../lib/b.dl"\n#include "./lib/b.dl"\nc.', ["b(2).", "c."]),
    ],
)
def test_text(text: str, expected: list[str]) -> None:
    assert lines(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#include "none.dl"', 'cannot read "none.dl": no such file or directory'),
        ("#include none", "include needs a file name in quotes"),
        ('#include "lib/loop.dl"', "files include each other 50 deep"),
        ("#if A +\n#endif", "#if A + is not supported"),
        ("#error too old", "too old"),
        ("#nothing x", "#nothing is not supported"),
        ("#endif", "#endif without #if"),
        ("#else", "#else without #if"),
        ("#ifdef A", "#endif is missing"),
        ("#define", "#define needs a name"),
        ("a. /* b", "a comment does not end"),
    ],
)
def test_errors(text: str, message: str) -> None:
    _, diagnostics = run(text)
    assert [found.message for found in diagnostics.entries] == [message]


def test_macros_that_explode_are_refused() -> None:
    doubling = "\n".join(f"#define A{n} A{n + 1} A{n + 1}" for n in range(40))
    _, diagnostics = run(f"{doubling}\nA0")
    assert diagnostics.entries[0].message.endswith("stands for more than 100000 characters")


def test_places_in_included_files_and_macros() -> None:
    source, _ = run('#include "lib/b.dl"\n#define N q(1)\np(N).\n')
    at = source.text.index("b(2)")
    span = source.span(at, at + 4)
    assert (span.file, span.line, span.column) == ("lib/b.dl", 2, 1)
    at = source.text.index("q(1)")
    span = source.span(at + 2, at + 3)
    assert (span.file, span.source[span.start : span.end]) == ("main.dl", "N")
    at = source.text.index("p(")
    span = source.span(at, at + len("p(q(1))."))
    assert span.source[span.start : span.end] == "p(N)."


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("1 + 2 * 3 == 7", True),
        ("(1 + 2) * 3 == 7", False),
        ("A >= 3 && B < 2", True),
        ("A > 3 || !defined(C)", True),
        ("defined A && defined ( C )", False),
        ("!A", False),
        ("-A + 5 == 2", True),
        ("7 / 2 == 3 && 7 % 2", True),
        ("F(2) == 3", True),
        ("NAME", False),
        ("NAME == 0", True),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    text = f"#define A 3\n#define B 1\n#define F(x) x + 1\n#if {condition}\nyes\n#else\nno\n#endif"
    assert lines(text)[-1].strip() == ("yes" if holds else "no")


@pytest.mark.parametrize("condition", ["", "(1", "1)", "1 / 0", "1 % 0", "1 ==", "1 2", '"a"', "9" * 30, "@"])
def test_what_is_no_condition(condition: str) -> None:
    _, diagnostics = run(f"#if {condition}\n#endif")
    assert [found.code for found in diagnostics.entries] == ["directive"]


def test_places_of_other_preprocessors_are_passed_over() -> None:
    assert lines('# 1 "old.dl"\n#line 7\n#pragma once\np(1).') == ["p(1)."]


def test_folders_and_macros_of_the_caller() -> None:
    diagnostics = Diagnostics()
    setting = Setting(("lib",), (("N", "3"),))
    found = preprocess(File("main.dl", '#include "b.dl"\nN'), read, diagnostics, setting)
    assert found.text.split() == ["b(2).", "3"] and not diagnostics.has_errors
