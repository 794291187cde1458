"""Outputs as Soufflé writes them: values, frames, formats, order; what is written can be read."""

import gzip
import io
import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import kpg
from kpg.datalog.output_files import write_outputs
from kpg.datalog.program import Program
from kpg.datalog.terms import float_text, structure_text

VALUES = """
.type List = [head: symbol, weight: float, tail: List]
.type Shape = Circle {r: number} | Point {}
.decl r(f: float, u: unsigned, l: List, s: Shape)
r(2, 7, ["a, b", 0.5, ["]", 1, nil]], $Circle(3)).
r(-0.1, 0, nil, $Point()).
.decl holds() holds() :- r(_, _, nil, _).
.decl fails() fails() :- r(3, _, _, _).
"""


def installed(text: str, folder: Path | None = None) -> Program:
    return kpg.connect().datalog(text, facts=folder)


def screen(text: str) -> str:
    out = io.StringIO()
    write_outputs(installed(text), "-", out)
    return out.getvalue()


def written(text: str, folder: Path, name: str) -> str:
    write_outputs(installed(text), str(folder), io.StringIO())
    return (folder / name).read_text()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1e17, "1e+17"),
        (1.5e-7, "1.5e-07"),
        (0.0001, "0.0001"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert float_text(value) == text


def test_flowlogs_short_floats() -> None:
    text = ".decl r(f: f32) r(0.1). .decl s(f: f32) s(x + 0.2) :- r(x). .output s"
    assert screen(text) == f"{'-' * 15}\ns\nf\n{'=' * 15}\n0.3\n{'=' * 15}\n"


def test_records() -> None:
    assert structure_text('["a\\"b", 2.0, [1e+20, nil], -3]', quotes=False) == '[a"b, 2, [1e+20, nil], -3]'
    assert structure_text('$B("x", 1.5)', quotes=True) == '$B("x", 1.5)'


def test_frames() -> None:
    line, end = "-" * 15, "=" * 15
    assert screen(VALUES + ".output r(headers=true) .output holds() .output fails .printsize r") == (
        f"{line}\nr\nf\tu\tl\ts\n{end}\n"
        "-0.1\t0\tnil\t$Point\n2\t7\t[a, b, 0.5, [], 1, nil]]\t$Circle(3)\n"
        f"{end}\n{line}\nholds\n\n{end}\n()\n{end}\n{line}\nfails\n\n{end}\n{end}\nr\t2\n"
    )


def test_quotes_and_rfc4180(tmp_path: Path) -> None:
    assert written(VALUES + ".output r(quotes=true)", tmp_path, "r.csv") == (
        '-0.1\t0\tnil\t$Point\n2\t7\t["a, b", 0.5, ["]", 1, nil]]\t$Circle(3)\n'
    )
    assert written(VALUES + ".output r(rfc4180=true)", tmp_path, "r.csv") == (
        '-0.1,0,"nil","$Point"\n2,7,"[""a, b"", 0.5, [""]"", 1, nil]]","$Circle(3)"\n'
    )
    text = '.decl s(x: symbol) s("a\\"b"). s("c, d"). .output s(rfc4180=true, delimiter="; ")'
    assert written(text, tmp_path, "s.csv") == '"a\\""b"\n"c, d"\n'


def test_what_is_quoted_can_be_read(tmp_path: Path) -> None:
    write_outputs(installed(VALUES + ".output r(rfc4180=true)"), str(tmp_path), io.StringIO())
    types = VALUES.partition(".decl")[0]
    again = installed(types + ".decl r(f: float, u: unsigned, l: List, s: Shape) .input r", tmp_path)
    assert sorted(again.rows("r")) == sorted(installed(VALUES).rows("r"))


def test_gzip(tmp_path: Path) -> None:
    write_outputs(installed(VALUES + ".output holds(compress=true)"), str(tmp_path), io.StringIO())
    assert gzip.decompress((tmp_path / "holds.csv.gz").read_bytes()) == b"()\n"
    (tmp_path / "e.facts").write_bytes(gzip.compress(b"1\n2\n"))
    assert list(installed(".decl e(x: number) .input e", tmp_path).rows("e")) == [(1,), (2,)]


def test_order_and_limit(tmp_path: Path) -> None:
    text = '.decl p(x: number, s: symbol) p(1, "b"). p(2, "a"). p(3, "b"). '
    assert (
        written(text + '.output p(order_by="s DESC, x desc", limit="2")', tmp_path, "p.csv") == "3\tb\n1\tb\n"
    )
    assert written(text + '.output p(order_by="s")', tmp_path, "p.csv") == "2\ta\n1\tb\n3\tb\n"


def test_json_as_souffle_spells_it() -> None:
    text = '.decl r(f: float, s: symbol) r(-2.0, "a\\"b"). r(1.5, "é").'
    text += " .decl n() n(). .decl m() m() :- r(0.0, _)."
    assert screen(text + ".output r(IO=json) .output r(IO=json, format=object) .output n, m(IO=json)") == (
        '[[-2, "a\\"b"],\n[1.5, "é"]]\n[{"f": -2, "s": "a\\"b"},\n{"f": 1.5, "s": "é"}]\n[null\n]\n[]\n'
    )


def test_json(tmp_path: Path) -> None:
    lists = written(VALUES + ".output r(IO=jsonfile)", tmp_path, "r.json")
    assert json.loads(lists) == [
        [-0.1, 0, None, ["$Point"]],
        [2.0, 7, ["a, b", 0.5, ["]", 1.0, None]], ["$Circle", 3]],
    ]
    objects = json.loads(screen(VALUES + ".output r(IO=json, format=object)"))
    assert objects[1]["l"] == {
        "head": "a, b",
        "weight": 0.5,
        "tail": {"head": "]", "weight": 1.0, "tail": None},
    }
    types = VALUES.partition(".decl")[0]
    for form in ("list", "object"):
        write_outputs(
            installed(VALUES + f".output r(IO=jsonfile, format={form})"), str(tmp_path), io.StringIO()
        )
        again = installed(
            types + ".decl r(f: float, u: unsigned, l: List, s: Shape) .input r(IO=json)", tmp_path
        )
        assert sorted(again.rows("r")) == sorted(installed(VALUES).rows("r"))


def test_sqlite(tmp_path: Path) -> None:
    text = '.decl p(x: number, s: symbol, f: float) p(1, "b", 0.5). p(-2, "a", 2). p(3, "b", 0). '
    write_outputs(
        installed(text + ".output p(IO=sqlite, filename=d.db)".replace("d.db", '"d.db"')),
        str(tmp_path),
        io.StringIO(),
    )
    with closing(sqlite3.connect(tmp_path / "d.db")) as db:
        assert db.execute("SELECT x, s, f FROM p ORDER BY x").fetchall() == [
            (-2, "a", 2.0),
            (1, "b", 0.5),
            (3, "b", 0.0),
        ]
        assert db.execute('SELECT count(*) FROM "_p"').fetchone() == (3,)
        assert db.execute('SELECT symbol FROM "__SymbolTable" ORDER BY 1').fetchall() == [("a",), ("b",)]
    again = '.decl p(x: number, s: symbol, f: float) .input p(IO=sqlite, dbname="d.db")'
    assert sorted(installed(again, tmp_path).rows("p")) == [(-2, "a", 2.0), (1, "b", 0.5), (3, "b", 0.0)]
    with pytest.raises(kpg.OperationalError, match="no such table: q"):
        installed('.decl q(x: number) .input q(IO=sqlite, filename="d.db")', tmp_path)
    with pytest.raises(kpg.OperationalError, match=r"there is no file .*q.sqlite for relation q"):
        installed(".decl q(x: number) .input q(IO=sqlite)", tmp_path)
    named = '.decl q(x: number, s: symbol, f: float) .input q(IO=sqlite, dbname="d.db", name="p")'
    assert sorted(installed(named, tmp_path).rows("q")) == [(-2, "a", 2.0), (1, "b", 0.5), (3, "b", 0.0)]
    text += '.output p(IO=sqlite, filename="d.db", name="other") .output p(name="q")'
    write_outputs(installed(text), str(tmp_path), io.StringIO())
    with closing(sqlite3.connect(tmp_path / "d.db")) as db:
        assert db.execute("SELECT x FROM other ORDER BY x").fetchall() == [(-2,), (1,), (3,)]
    assert (tmp_path / "q.csv").read_text().startswith("-2\ta\t2\n")


def test_json_files_are_read_again(tmp_path: Path) -> None:
    text = '.decl p(x: number, s: symbol) p(1, "b"). p(-2, "a\\t"). .output p(IO=jsonfile, filename="d.json")'
    write_outputs(installed(text), str(tmp_path), io.StringIO())
    for kind in ("jsonfile", "json"):
        again = f'.decl p(x: number, s: symbol) .input p(IO={kind}, filename="d.json")'
        assert sorted(installed(again, tmp_path).rows("p")) == [(-2, "a\t"), (1, "b")]
    (tmp_path / "q.json").write_text("[[7]]")
    assert list(installed(".decl q(x: number) .input q(IO=jsonfile)", tmp_path).rows("q")) == [(7,)]
