"""Facts from files, outputs to files, transcripts, and the command line."""

import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import kpg
from kpg.api.database import Database
from kpg.cli import main
from kpg.cli.datalog_prompt import DatalogPrompt, is_complete
from kpg.cli.output import Format
from kpg.cli.sql_prompt import enter_key_bindings
from kpg.datalog.output_files import write_outputs
from kpg.datalog.transcript import run_transcript

DECLARATIONS = """
.decl item(n: number, s: symbol, f: float)
.input item{}
.decl small(s: symbol, n: number)
.output small{}
small(s, n) :- item(n, s, _), n < 3.
.printsize small
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def db() -> Database:
    return kpg.connect()


def items(db: Database) -> list[tuple[object, ...]]:
    return sorted(db.query("SELECT * FROM item"))


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("item.facts", "", '1\ta "b"\t1.5\n2\tc,d\t-2\n1\ta "b"\t1.5\n'),
        ("item.tsv", "", '1\ta "b"\t1.5\r\n2\tc,d\t-2'),
        ("item.csv", "", '1,"a ""b""",1.5\n2,"c,d",-2\n'),
        (
            "in.txt",
            '(IO=file, filename="in.txt", delimiter="|", headers=true)',
            'n|s|f\n1|a "b"|1.5\n2|c,d|-2\n',
        ),
        ("x.csv", '(filename="x.csv", delimiter=";")', '1;"a ""b""";1.5\n2;c,d;-2\n'),
    ],
)
def test_files_of_facts(db: Database, tmp_path: Path, name: str, options: str, text: str) -> None:
    (tmp_path / name).write_text(text, newline="")
    db.datalog(DECLARATIONS.format(options, ""), facts=tmp_path)
    assert items(db) == [(1, 'a "b"', 1.5), (2, "c,d", -2.0)]


def test_parquet_and_empty_files(db: Database, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 1], "s": ["a", "a"], "f": [0.5, 0.5]}), tmp_path / "item.parquet")
    program = db.datalog(DECLARATIONS.format("", ""), facts=tmp_path)
    assert items(db) == [(1, "a", 0.5)]
    program.drop()
    (tmp_path / "item.facts").write_text("")
    db.datalog(DECLARATIONS.format("", ""), facts=tmp_path)
    assert items(db) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\t1\n2\tb\n", "item.facts line 2: 2 fields for the 3 columns of item"),
        ("1\ta\t1\n2\tb\t2\nx3\tc\t3\n", 'item.facts line 3, column n: "x3" is no number'),
        ("1\ta\tone\n", 'item.facts line 1, column f: "one" is no float'),
        ("1\ta\t1\n\n", 'item.facts line 2, column n: "" is no number'),
        ("99999999999999999999\ta\t1\n", 'line 1, column n: "99999999999999999999" is no number'),
    ],
)
def test_bad_rows_are_placed(db: Database, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "item.facts").write_text(text)
    with pytest.raises(kpg.DataError) as caught:
        db.datalog(DECLARATIONS.format("", ""), facts=tmp_path)
    assert message in str(caught.value)
    assert not list(db.tables()) and not list(db.views())


def test_domains_of_columns(db: Database, tmp_path: Path) -> None:
    (tmp_path / "u.facts").write_text("1\n-1\n")
    with pytest.raises(kpg.DataError, match=r'u\.facts line 2, column x: "-1" is no unsigned'):
        db.datalog(".decl u(x: unsigned)\n.input u", facts=tmp_path)
    (tmp_path / "u.facts").write_text("1\n3000000000\n")
    with pytest.raises(kpg.DataError, match='line 2, column x: "3000000000" is no number'):
        db.datalog('.pragma "number-size" "32"\n.decl u(x: number)\n.input u', facts=tmp_path)
    with pytest.raises(kpg.OperationalError, match=r"there is no file .*v.facts for relation v"):
        db.datalog(".decl v(x: number)\n.input v", facts=tmp_path)
    with pytest.raises(kpg.errors.DatalogError, match="IO=odbc is not supported"):
        db.datalog(".decl v(x: number)\n.input v(IO=odbc)", facts=tmp_path)
    (tmp_path / "r.facts").write_text("[1]\n")
    assert list(db.datalog(".type R = [x: number]\n.decl r(x: R)\n.input r", facts=tmp_path).rows("r")) == [
        ("[1]",)
    ]
    (tmp_path / "go.facts").write_text("()\n")
    program = db.datalog(".decl go()\n.input go\n.decl ok()\nok() :- go().", facts=tmp_path)
    assert len(program["ok"]) == 1


def test_outputs(db: Database, tmp_path: Path) -> None:
    (tmp_path / "item.facts").write_text("2\tb\t0\n1\ta\t0\n1\ta\t5\n9\tc\t0\n")
    program = db.datalog(DECLARATIONS.format("", ""), facts=tmp_path)
    out = io.StringIO()
    write_outputs(program, str(tmp_path / "out"), out)
    assert (tmp_path / "out" / "small.csv").read_text() == "a\t1\nb\t2\n" and out.getvalue() == "small\t2\n"
    write_outputs(program, "-", out)
    frame = f"{'-' * 15}\nsmall\ns\tn\n{'=' * 15}\na\t1\nb\t2\n{'=' * 15}\n"
    assert out.getvalue() == f"small\t2\n{frame}small\t2\n"
    program.drop()
    program = db.datalog(DECLARATIONS.format("", '(IO=file, filename="s.txt", delimiter=", ", headers=true)'))
    write_outputs(program, str(tmp_path), out)
    assert (tmp_path / "s.txt").read_text() == "s, n\n"
    program.drop()
    program = db.datalog(DECLARATIONS.format("", "(IO=parquet)") + 'item(1, "x", 0.5).')
    write_outputs(program, str(tmp_path), out)
    assert pq.read_table(tmp_path / "small.parquet").to_pylist() == [{"s": "x", "n": 1}]


TRANSCRIPT = """
# two transactions, and one that is thrown away
begin
put item(1, "a", 0.5)
put item(7, "b", 0.5);
file item more.facts
commit
begin
put item +1 (2, "z", 0.0)
abort
put -item(1, "a", 0.5)
file -item more.facts
"""


def test_transcripts(db: Database, tmp_path: Path) -> None:
    (tmp_path / "item.facts").write_text("")
    (tmp_path / "more.facts").write_text("0\tc\t1\n8\td\t1\n")
    program = db.datalog(DECLARATIONS.format("", ""), facts=tmp_path)
    out = io.StringIO()
    run_transcript(program, TRANSCRIPT, "t.txt", tmp_path, out)
    assert out.getvalue() == (
        "commit 1\nsmall(a, 1) +1\nsmall(c, 0) +1\ncommit 2\nsmall(a, 1) -1\ncommit 3\nsmall(c, 0) -1\n"
    )
    assert items(db) == [(7, "b", 0.5)]


COMMANDS = """
txn
put Item 1,a,0.5
put item "2,b c,0.5" +1
put item 2,"b c",0.5 +2
done
put item 1,a,0.5 -1
put item 2,"b c",0.5 -1
put item "2,b c,0.5" -2
done
file item more.csv +1
commit
put go True
commit
put go False
commit
put item 2,z,0.5
quit
"""


def test_transcripts_as_flowlog_has_them(db: Database, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("0,c,1\n8,d,1\n")
    text = DECLARATIONS.format('(IO="command", delimiter=",")', "")
    program = db.datalog(text + ".decl go() .input go(IO=command) .decl on() .output on on() :- go().")
    out = io.StringIO()
    run_transcript(program, COMMANDS, "t.txt", tmp_path, out)
    assert out.getvalue().splitlines() == [
        *("commit 1", "small(a, 1) +1", "small(b c, 2) +1"),
        *("commit 2", "small(a, 1) -1", "small(b c, 2) -1"),
        *("commit 3", "small(c, 0) +1", "commit 4", "on() +1", "commit 5", "on() -1"),
    ]
    assert items(db) == [(0, "c", 1.0), (8, "d", 1.0)]


def test_copies_that_an_abort_takes_back(db: Database, tmp_path: Path) -> None:
    program = db.datalog(DECLARATIONS.format("(IO=cmd)", ""))
    lines = "begin\nput item 1\ta\t0 +2\nabort\nput item 1\ta\t0\nput item 1\ta\t0 -1\ncommit\n"
    run_transcript(program, lines.replace("\t", ","), "t.txt", tmp_path, io.StringIO())
    assert items(db) == []


def test_the_command_reads_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    program = tmp_path / "p.dl"
    program.write_text(DECLARATIONS.format('(IO="command")', ""))
    assert run(monkeypatch, "run", str(program), "-D", str(tmp_path), stdin="put item 1,a,0\ndone") == 0
    assert capsys.readouterr().out == "commit 1\nsmall(a, 1) +1\nsmall\t1\n"


FAULTS = """
commit
start
put item 1,a
put item x,a,1
put nothing 1
put item 1,a,0 one
put item 1,a,0
begin
put item 2,b,0
file item absent.csv
commit
rollback
?
put item 3,c,0
"""


def test_what_flowlog_cannot_do_is_told_and_passed_over(
    db: Database, tmp_path: Path, capsys: Captured
) -> None:
    program = db.datalog(DECLARATIONS.format('(IO="command")', ""))
    out = io.StringIO()
    run_transcript(program, FAULTS, "t.txt", tmp_path, out)
    assert items(db) == [(2, "b", 0.0)] and db._engine.transactions.is_idle
    assert out.getvalue().startswith("commit 1\nsmall(b, 2) +1\nbegin, txn")
    told = capsys.readouterr().err
    for message in (
        "t.txt line 2: no transaction is open",
        '"start" is no command',
        "2 fields for the 3 columns of item",
        '"x" is no number',
        "nothing is no relation that has facts",
        "put takes a fact",
        "cannot read",
        "what was put after the last commit is thrown away",
    ):
        assert message in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("put item 1,a", "put line 1: 2 fields for the 3 columns of item"),
        ("put item x,a,1", 'put line 1, column n: "x" is no number'),
        ("begin\nput item(1, 2, 3)\ncommit", "t.txt line 2: put item(1, 2, 3)"),
        ("begin\nput nothing(1)\n", "relation nothing is not defined"),
        ('\nput small("a", 1)\n', "t.txt line 2: put small("),
        ("put", "put takes a fact"),
        ("file item", "file takes a relation and a path"),
        ("file small x", "small is no relation that has facts"),
        ("file item absent.facts", "cannot read"),
        ("start", '"start" is no command'),
        ("commit", "there is no transaction to commit"),
        ("begin\nbegin", "a transaction is already open"),
    ],
)
def test_wrong_transcripts(db: Database, tmp_path: Path, text: str, message: str) -> None:
    program = db.datalog(DECLARATIONS.format("", ""))
    with pytest.raises(kpg.Error) as caught:
        run_transcript(program, text, "t.txt", tmp_path, io.StringIO())
    assert message in str(caught.value)
    assert items(db) == [] and db._engine.transactions.is_idle


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, stdin: str = "") -> int:
    monkeypatch.setattr(sys, "argv", ["kpg", "datalog", *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


@pytest.mark.parametrize("option", [(), ("-w",)])
def test_the_command_warns_of_missing_files(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path, option: tuple[str, ...]
) -> None:
    text = '.decl a, b(x: number) .input a .input b(filename="no.csv") .decl c(x: number) .output c() '
    (tmp_path / "p.dl").write_text(text + "c(n) :- n = count : { a(_) }. c(-1) :- !b(1).")
    assert run(monkeypatch, "run", str(tmp_path / "p.dl"), "-F", str(tmp_path), "-D-", *option) == 0
    captured = capsys.readouterr()
    assert captured.out == "---------------\nc\nx\n===============\n-1\n0\n===============\n"
    expected = [
        f"warning: there is no file {tmp_path / 'a.facts'}: relation a is empty",
        f"warning: there is no file {tmp_path / 'no.csv'}: relation b is empty",
    ]
    assert captured.err.splitlines() == ([] if option else expected)


def test_the_command_takes_what_souffle_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    program = tmp_path / "p.dl"
    program.write_text(".decl a(x: number) a(1). .output a")
    options = ["-D-", "-j4", "-p", "log", "-o", "exe", "-t", "none", "-w", "-L."]
    assert run(monkeypatch, "run", str(program), *options) == 0
    captured = capsys.readouterr()
    assert captured.out == "---------------\na\nx\n===============\n1\n===============\n"
    assert [line.split()[0] for line in captured.err.splitlines()] == [
        "--profile",
        "--dl-program",
        "--provenance",
        "--library-dir",
    ]


def test_the_command_runs_programs(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    program, script = tmp_path / "p.dl", tmp_path / "t.txt"
    program.write_text(DECLARATIONS.format("", "") + '?- small(s, 1).\n?- small("b", $n).\n')
    script.write_text('put item(2, "b", 0.0)\n')
    (tmp_path / "item.facts").write_text("1\ta\t0\n")
    options = ["-F", str(tmp_path), "-D", str(tmp_path / "out"), "--format", "csv"]
    assert run(monkeypatch, "run", str(program), *options, "--transcript", str(script)) == 0
    assert capsys.readouterr().out == "commit 2\nsmall(b, 2) +1\nsmall\t2\ns\na\n"
    assert (tmp_path / "out" / "small.csv").read_text() == "a\t1\nb\t2\n"
    (tmp_path / "item.facts").write_text("one\ta\t0\n")
    assert run(monkeypatch, "run", str(program), *options) == 1
    assert 'item.facts line 1, column n: "one" is no number' in capsys.readouterr().err


def test_the_command_knows_tables(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    program, schema = tmp_path / "p.dl", tmp_path / "s.sql"
    program.write_text(".decl p(x: number)\np(x) :- t(x, _).\n.printsize p\n")
    schema.write_text("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (1, 3);")
    options = [str(program), "--schema", str(schema)]
    assert run(monkeypatch, "check", *options) == 0
    assert run(monkeypatch, "run", *options) == 0
    assert capsys.readouterr().out.endswith("0 errors, 0 warnings\np\t1\n")


def test_the_command_checks_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    program = tmp_path / "p.dl"
    program.write_text(".decl p(x: number)\n.decl q(x: number)\nq(1).\np(x) :- q(x), q(y).\n")
    assert run(monkeypatch, "check", str(program)) == 0
    found = capsys.readouterr().out
    assert "warning: variable y only occurs once" in found and found.endswith("0 errors, 1 warning\n")
    program.write_text(".decl p(x: number)\np(x) :- r(x).\n")
    assert run(monkeypatch, "check", str(program), "--json") == 1
    (fault,) = json.loads(capsys.readouterr().out)
    assert (fault["code"], fault["line"], fault["column"]) == ("undefined", 2, 9)
    assert run(monkeypatch, "check", str(program)) == 1
    assert "error: relation r is not defined" in capsys.readouterr().out
    assert run(monkeypatch, "check", str(tmp_path / "absent.dl")) == 1


SESSION = """\
.decl e(a: number, b: number)
e(1, 2). // a comment. here
e(2, 3).
.decl tc(a: number, b: number)
tc(x, y) :- e(x, y).
tc(x, y) :-
  tc(x, z), e(z, y).
?- tc(1, x).
+e(3, 4). -e(9, 9).
.explain ?- tc(1, x).
.program
.sql SELECT count(*) AS n FROM tc
.quit
?- e(1, x).
"""


def test_the_prompt_reads_what_comes_through_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run(monkeypatch, "repl", "--format", "csv", stdin=SESSION) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["x", "2", "3", "1 fact changed"]
    assert lines[4].startswith("from what is asked") and lines[-2:] == ["n", "6"]
    assert "tc(x, y) :- tc(x, z), e(z, y)." in lines
    assert run(monkeypatch, "repl", stdin="p(1).") == 1


def test_the_prompt(db: Database, capsys: Captured) -> None:
    with create_pipe_input() as keys:
        for line in (
            ".decl e(a: number)",
            "e(1).",
            "?- e($x).",
            "?- e(",
            "x).",
            "nonsense.",
            ".list",
            "quit",
        ):
            keys.send_text(line + "\r")
        session = PromptSession(
            input=keys, output=DummyOutput(), multiline=True, key_bindings=enter_key_bindings(is_complete)
        )
        assert DatalogPrompt(db, Format.CSV, session).run() == 0
    found = capsys.readouterr()
    assert "x\n1\n" in found.out and "no value for $x" in found.err
    assert "error: syntax error" in found.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".bogus", "error: unknown command .bogus\nhint: .help lists them\n"),
        (".sqll SELECT 1", "error: unknown command .sqll\nhint: .help lists them\n"),
        (".explain", "error: nothing to explain\nhint: .explain tc(1, 4) or .explain ?- tc(1, x).\n"),
    ],
)
def test_the_prompt_says_which_commands_there_are(
    db: Database, capsys: Captured, text: str, message: str
) -> None:
    assert DatalogPrompt(db, Format.CSV).execute(text)
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("help", True),
        (".list", True),
        (".decl p(x: number)", True),
        (".decl p(x: number,", False),
        ("p(x) :- q(x),", False),
        ('p("a.").', True),
        ('p("a.', False),
        ("p(1). // why?", True),
        ("/* p(1).", False),
        ("p(c) :- c = count : { q(_)", False),
        (".comp C { .decl p(x: number)", False),
        (".comp C { .decl p(x: number) }", True),
        ("+e(1, 2).", True),
        (".bogus", True),
        (".plan 0:(1, 2)", False),
    ],
)
def test_entries_are_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_sizes_in_transcripts(tmp_path: Path) -> None:
    program = kpg.connect().datalog("""
        .decl data(x: int32, y: int32)
        .input data(IO="command")
        .decl tc(x: int32, y: int32)
        tc(x, y) :- data(x, y).
        tc(x, z) :- tc(x, y), data(y, z).
        .printsize tc
        .decl from(x: int32) .output from .printsize from
        from(x) :- tc(x, _).
    """)
    out = io.StringIO()
    text = (
        "put data 1,2 +1\nput data 2,3\ncommit\nput data 3,4\ncommit\nput data 1,2 -1\nput data 3,1\ncommit"
    )
    run_transcript(program, text, "t.txt", tmp_path, out)
    assert out.getvalue().splitlines() == [
        *("commit 1", "tc size +3", "from(1) +1", "from(2) +1"),
        *("commit 2", "tc size +3", "from(3) +1"),
        *("commit 3", "tc size -1", "from(1) -1"),
    ]


def test_flowlogs_numbers_in_files(tmp_path: Path) -> None:
    (tmp_path / "a.facts").write_text("100\t0.1\n-128\t16777217\n")
    text = ".decl a(x: int8, y: f32) .input a .decl b(x: f32) .output b b(y + 0.2) :- a(_, y)."
    found = kpg.connect().datalog(text, facts=str(tmp_path))
    assert sorted(found["b"]) == [(0.30000001192092896,), (16777216.0,)]
    (tmp_path / "a.facts").write_text("128\t0.1\n")
    with pytest.raises(kpg.DataError, match=r'a\.facts line 1, column x: "128" is no int8'):
        kpg.connect().datalog(text, facts=str(tmp_path))
