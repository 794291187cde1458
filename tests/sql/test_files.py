"""The files of SQL give their answers, in kpg and in a real Postgres."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.datadriven import check_file, read_cases
from tests.oracle.postgres import serving
from tests.sql.script import Ours, Theirs, agree

FILES = sorted(Path(__file__).parent.rglob("*.test"))


def name_of(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).as_posix()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("postgres")) as found:
        yield found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_answers_are_those_of_the_file(path: Path, rewrite: bool) -> None:
    with closing(Ours()) as ours:
        check_file(path, lambda command, text: ours.answer(command.split()[0], text), rewrite=rewrite)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_answers_are_those_of_postgres(path: Path, address: str) -> None:
    wrong = []
    with closing(Theirs(address)) as theirs:
        for case in read_cases(path):
            command, *flags = case.command.split() or [""]
            if not command or flags == ["kpg"]:
                continue
            answer = theirs.answer(command, case.input)
            if agree(case.expected, answer) == (flags == ["differs"]):
                wrong.append(f"line {case.line}: {case.input}\n  Postgres: {answer}")
    assert wrong == [], "\n".join(wrong)
