"""Golden tests in text files: an input, ``----``, and what it must give.

A file is a sequence of cases separated by blank lines. The first line of a case is its command, the
lines up to ``----`` its input, the lines after it the expected output, which has no blank lines.
Comments start with ``#`` before a command. ``pytest --rewrite`` puts what comes out in place of what is
expected.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "----"


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a file; ``line`` is where it starts."""

    comments: tuple[str, ...]
    command: str
    input: str
    expected: str
    line: int


def read_cases(path: Path) -> list[Case]:
    """The cases of a file."""
    cases: list[Case] = []
    block: list[str] = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if line.strip():
            block.append(line)
        elif block:
            cases.append(_case(block, number - len(block)))
            block = []
    return cases


def _case(block: list[str], line: int) -> Case:
    start = next((index for index, text in enumerate(block) if not text.startswith("#")), len(block))
    comments, body = tuple(block[:start]), block[start:]
    if not body:
        return Case(comments, "", "", "", line)
    assert SEPARATOR in body, f"line {line}: no {SEPARATOR}"
    middle = body.index(SEPARATOR)
    return Case(comments, body[0], "\n".join(body[1:middle]), "\n".join(body[middle + 1 :]), line)


def check_file(path: Path, run: Callable[[str, str], str], *, rewrite: bool) -> None:
    """Runs ``run(command, input)`` on each case; asserts, or writes down, that it gives the expected."""
    cases = read_cases(path)
    outputs = [run(case.command, case.input).rstrip("\n") if case.command else "" for case in cases]
    assert not any("\n\n" in output for output in outputs), "an output has a blank line"
    if rewrite:
        path.write_text("\n".join(map(_shown, cases, outputs)), encoding="utf-8")
        return
    for case, output in zip(cases, outputs, strict=True):
        hint = f"{path.name}, line {case.line}; pytest --rewrite accepts what comes out"
        assert output == case.expected, hint


def _shown(case: Case, output: str) -> str:
    parts = [*case.comments]
    if case.command:
        parts += [case.command, case.input, SEPARATOR, output]
    return "".join(f"{part}\n" for part in parts if part)
