"""Records and ADT values in files and as parameters: equal values are equal texts, others are refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kpg
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.datalog.terms import TermError, canonical_term
from kpg.runtime.errors import DataError, DatalogError

TYPES = """
.type List = [head: number, tail: List]
.type Pair = [name: symbol, weight: float]
.type Other = List
.type Tree = Leaf {} | Node {left: Tree, value: unsigned, right: Tree} | Tag {text: symbol, list: List}
"""
PROGRAM = check(f"{TYPES} .decl r(l: List, p: Pair, o: Other, t: Tree)", Catalog()).program
COLUMNS = dict(zip(("List", "Pair", "Other", "Tree"), PROGRAM.relations["r"].columns, strict=True))
EMPTY = check(".type None = [] .decl r(x: None)", Catalog()).program


def text(given: str, name: str, size: int = 64) -> str:
    return canonical_term(given, COLUMNS[name].type, PROGRAM.structures, size)


@pytest.mark.parametrize(
    ("given", "name", "made"),
    [
        ("nil", "List", "nil"),
        (" [ 1 ,nil ] ", "List", "[1, nil]"),
        ("[+1,[-2,[007,nil]]]", "Other", "[1, [-2, [7, nil]]]"),
        ("[abc, 1]", "Pair", '["abc", 1.0]'),
        ("[two words , 2.50]", "Pair", '["two words", 2.5]'),
        (r'["a, \"b\" ]\n", 1e3]', "Pair", r'["a, \"b\" ]\n", 1000.0]'),
        ("$Leaf", "Tree", "$Leaf"),
        ("$Leaf()", "Tree", "$Leaf"),
        ("$Node($Leaf,3,$Node($Leaf ( ), 0, $Leaf))", "Tree", "$Node($Leaf, 3, $Node($Leaf, 0, $Leaf))"),
        ("$Tag(é€, [1,nil])", "Tree", '$Tag("é€", [1, nil])'),
    ],
)
def test_equal_values_are_equal_texts(given: str, name: str, made: str) -> None:
    assert text(given, name) == made
    assert text(made, name) == made


@pytest.mark.parametrize(
    ("given", "name", "message"),
    [
        ("", "List", r"it does not end \(character 1\)"),
        ("[1, nil", "List", r"it does not end \(character 8\)"),
        ("[1]", "List", r"record List has 2 fields, 1 is given \(character 3\)"),
        ("[1, nil, 2]", "List", r"record List has 2 fields, more than 2 are given \(character 8\)"),
        ("[1, nil] 2", "List", r"there is more after it \(character 9\)"),
        ("[x, nil]", "List", r'"x" is no number \(character 2\)'),
        ("[1.5, nil]", "List", r'"1.5" is no number'),
        ("[9223372036854775808, nil]", "List", '"9223372036854775808" is no number'),
        ("7", "List", r"a record of List begins with \[ \(character 1\)"),
        ("[a, b]", "Pair", '"b" is no float'),
        ("[a, nan]", "Pair", '"nan" is no float'),
        ("[, 1]", "Pair", "a symbol is missing"),
        ('["a, 1]', "Pair", r"it cannot be read \(character 2\)"),
        ("$Twig", "Tree", r"the branches of Tree are \$Leaf, \$Node, \$Tag \(character 1\)"),
        ("$Node", "Tree", r'"\(" is missing \(character 6\)'),
        ("$Leaf(1)", "Tree", "branch Leaf has 0 fields"),
        ("$Node($Leaf, -1, $Leaf)", "Tree", '"-1" is no unsigned'),
        ("$Node($Leaf, 1, $Leaf]", "Tree", r'"\)" is missing \(character 22\)'),
    ],
)
def test_what_is_no_value(given: str, name: str, message: str) -> None:
    with pytest.raises(TermError, match=message):
        text(given, name)


def test_numbers_are_of_the_program_s_size() -> None:
    assert text("[2147483648, nil]", "List") == "[2147483648, nil]"
    with pytest.raises(TermError, match='"2147483648" is no number'):
        text("[2147483648, nil]", "List", 32)


def test_records_without_fields_and_long_lists() -> None:
    assert canonical_term(" [ ] ", EMPTY.relations["r"].columns[0].type, EMPTY.structures) == "[]"
    long = "[1, " * 50_000 + "nil" + "]" * 50_000
    assert text(long, "List") == long


READ = f"""{TYPES}
.decl l(n: number, list: List, tree: Tree) .input l
.decl heads(n: number, x: number) heads(n, x) :- l(n, [x, _], _).
.decl tags(s: symbol) tags(s) :- l(_, _, $Tag(s, _)).
"""


def test_files_with_records(tmp_path: Path) -> None:
    (tmp_path / "l.facts").write_text("1\t[5,[6,nil]]\t$Leaf\n2\tnil\t$Tag(a,nil)\n2\tnil\t$Tag( a , nil )\n")
    program = kpg.connect().datalog(READ, facts=tmp_path)
    assert list(program["heads"]) == [(1, 5)]
    assert list(program["tags"]) == [("a",)]
    assert len(program.rows("l")) == 2


def test_outputs_can_be_read_again(tmp_path: Path) -> None:
    from io import StringIO

    from kpg.datalog.output_files import write_outputs

    for options in ("(quotes=true)", '(rfc4180=true, delimiter=",", filename="l.csv")', "(IO=parquet)"):
        source = kpg.connect().datalog(
            f"{TYPES} .decl l(n: number, list: List, tree: Tree) .output l{options} "
            r'l(1, [5, [6, nil]], $Tag("a, \"b\" \\", nil)). l(2, nil, $Leaf).'
        )
        folder = tmp_path / f"{len(options)}"
        write_outputs(source, str(folder), StringIO())
        name = next(folder.iterdir()).name
        given = ', delimiter="tab", rfc4180=false' if "quotes" in options else ""
        text = READ.replace(".input l", f'.input l(filename="{name}"{given})')
        read = kpg.connect().datalog(text, facts=folder)
        assert sorted(read.rows("l")) == sorted(source.rows("l"))
        assert list(read["tags"]) == [('a, "b" \\',)]


def test_bad_records_are_placed(tmp_path: Path) -> None:
    db = kpg.connect()
    (tmp_path / "l.facts").write_text("1\tnil\t$Leaf\n2\t[1, nil\t$Leaf\n")
    with pytest.raises(
        DataError, match=r'l.facts line 2, column list: "\[1, nil" is no List: it does not end'
    ):
        db.datalog(READ, facts=tmp_path)
    (tmp_path / "l.facts").unlink()
    pq.write_table(
        pa.table({"n": [1, 2], "list": ["nil", "nil"], "tree": ["$Leaf", "$Twig"]}), tmp_path / "l.parquet"
    )
    with pytest.raises(DataError, match=r'l.parquet row 2, column tree: "\$Twig" is no Tree'):
        db.datalog(READ, facts=tmp_path)
    assert "l" not in [entry.name for entry in db._engine.catalog]


def test_parameters() -> None:
    program = kpg.connect().datalog(f"{TYPES} .decl l(list: List)")
    assert program.update("+l($x).", x="[1,nil]") == 1
    assert program.update("+l([1, nil]).") == 0
    with pytest.raises(DataError, match=r"\$x is no List: record List has 2 fields, 1 is given"):
        program.update("+l($x).", x="[1]")


def test_numbers_in_parquet_are_of_their_domain(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, -1]}), tmp_path / "u.parquet")
    with pytest.raises(DataError, match=r"u.parquet row 2, column x: -1 is no unsigned"):
        kpg.connect().datalog(".decl u(x: unsigned) .input u", facts=tmp_path)


@pytest.mark.slow
@pytest.mark.java
def test_facts_through_spark(tmp_path: Path) -> None:
    folder = tmp_path / "l"
    folder.mkdir()
    for part in range(2):
        rows = {"n": [part, part, 7], "list": ["nil", "[1,nil]", "nil"], "tree": ["$Leaf"] * 3}
        pq.write_table(pa.table(rows), folder / f"part-{part}.parquet")
    (tmp_path / "e.csv").write_text("y,x\n2,1\n3,2\n")
    program = kpg.connect().datalog(
        READ.replace(".input l", '.input l(IO=spark, filename="l")')
        + ".decl e(x: number, y: number) .input e(IO=spark, headers=true)",
        facts=tmp_path,
    )
    assert sorted(program["heads"]) == [(0, 1), (1, 1)]
    assert len(program.rows("l")) == 5
    assert sorted(program.rows("e")) == [(1, 2), (2, 3)]


def test_spark_needs_names(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("1,2\n")
    with pytest.raises(kpg.NotSupportedError, match="Spark finds columns by name"):
        kpg.connect().datalog(".decl e(x: number, y: number) .input e(IO=spark)", facts=tmp_path)


def test_unknown_kinds_of_files(tmp_path: Path) -> None:
    with pytest.raises((kpg.NotSupportedError, DatalogError), match="IO=xml is not supported"):
        kpg.connect().datalog(".decl e(x: number) .input e(IO=xml)", facts=tmp_path)
