"""Lines of facts as Soufflé splits them: columns, delimiters of any length, quotes, records, numbers."""

from pathlib import Path

import pytest

import kpg

P = ".decl p(x: number, s: symbol) "


def rows(text: str, folder: Path, content: str, name: str = "p.facts") -> list[tuple[object, ...]]:
    (folder / name).write_text(content, newline="")
    return sorted(kpg.connect().datalog(text, facts=folder).rows("p"))


@pytest.mark.parametrize(
    ("options", "content", "expected"),
    [
        ("", "1\ta\textra\n2\tb\n", [(1, "a"), (2, "b")]),
        ("", "1\t\n", [(1, "")]),
        ('(delimiter="||")', "1||a\n2||b|c||d\n", [(1, "a"), (2, "b|c")]),
        ('(columns="2:0")', "a\t-\t1\nb\t-\t2\r\n", [(1, "a"), (2, "b")]),
        ("(rfc4180=true)", '1,"a,""b"\n2,c\n', [(1, 'a,"b'), (2, "c")]),
        ('(rfc4180=true, delimiter=";;")', '1;;"a;;b"\n2;;c\n', [(1, "a;;b"), (2, "c")]),
        ('(rfc4180=true, headers=true, columns="1:0")', 's,x\n"a",1\n', [(1, "a")]),
        ("", "0x1F\ta\n-0b101\tb\n7\tc\n", [(-5, "b"), (7, "c"), (31, "a")]),
    ],
)
def test_lines(tmp_path: Path, options: str, content: str, expected: list[tuple[object, ...]]) -> None:
    assert rows(f"{P}.input p{options}", tmp_path, content) == expected


def test_commas_in_records(tmp_path: Path) -> None:
    types = ".type R = [a: number, s: symbol] .type A = X {r: R} | Y {} .decl p(x: R, y: A, z: number) "
    content = '[1, a],$X([2, "b],("]),3\nnil,$Y,4\n'
    assert rows(types + '.input p(delimiter=",")', tmp_path, content) == [
        ('[1, "a"]', '$X([2, "b],("])', 3),
        ("nil", "$Y", 4),
    ]


@pytest.mark.parametrize(("content", "expected"), [("1\ta,b\n", [(1, "a,b")]), ('1,"a,b"\n', [(1, "a,b")])])
def test_a_csv_of_which_nothing_is_said(
    tmp_path: Path, content: str, expected: list[tuple[object, ...]]
) -> None:
    assert rows(P + '.input p(filename="q.csv")', tmp_path, content, "q.csv") == expected


@pytest.mark.parametrize(("content", "holds"), [("", False), ("\n", True), ("()\n", True)])
def test_relations_without_columns(tmp_path: Path, content: str, holds: bool) -> None:
    assert bool(rows(".decl p() .input p", tmp_path, content)) is holds


@pytest.mark.parametrize(
    ("options", "content", "message"),
    [
        ('(delimiter="||")', "1||a\n2|b\n", "p.facts line 2: 1 fields for the 2 columns of p"),
        ('(columns="1:2")', "a\t1\tx\nb\t2\n", "p.facts line 2: 2 fields for the 2 columns of p"),
        ('(columns="1")', "a\t1\n", 'columns="1" of p are not the places of 2 columns'),
        ('(columns="a:b")', "a\t1\n", 'columns="a:b" of p are not the places of 2 columns'),
        ("", "0x1F\ta\n0x\tb\n", 'p.facts line 2, column x: "0x" is no number'),
        ("", "0x1F\ta\n0xFFFFFFFFFFFFFFFFF\tb\n", 'line 2, column x: "0xFFFFFFFFFFFFFFFFF" is no number'),
    ],
)
def test_wrong_lines(tmp_path: Path, options: str, content: str, message: str) -> None:
    with pytest.raises(kpg.DataError) as caught:
        rows(f"{P}.input p{options}", tmp_path, content)
    assert message in str(caught.value)
