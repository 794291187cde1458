"""The command line, run in this process."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import kpg
from kpg.api.database import Database
from kpg.cli import main
from kpg.cli.output import Format
from kpg.cli.script import is_complete, parse_command
from kpg.cli.sql_prompt import NameCompleter, Prompt, enter_key_bindings

Captured = pytest.CaptureFixture[str]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, stdin: str = "") -> int:
    """The exit code of the command with these arguments."""
    monkeypatch.setattr(sys, "argv", ["kpg", *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"kpg {kpg.__version__}\n"


@pytest.mark.parametrize("command", ["", "sql", "explain", "tpch", "functions"])
def test_help_teaches(monkeypatch: pytest.MonkeyPatch, capsys: Captured, command: str) -> None:
    assert run(monkeypatch, *command.split(), "--help") == 0
    assert f"kpg {command}".strip() in capsys.readouterr().out


def test_help_is_quick_to_load() -> None:
    code = "import sys, kpg.cli.commands; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numba", "pyspark", "pandas", "duckdb", "sqlglot", "numpy", "pyarrow"} & set(loaded)


def test_sql_text(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "sql", "-c", "SELECT 1 + 1 AS two, 'x' AS t", "--format", "csv") == 0
    assert capsys.readouterr().out == "two,t\n2,x\n"


def test_sql_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    script = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a;"
    assert run(monkeypatch, "sql", "-", "-f", "json", stdin=script) == 0
    assert capsys.readouterr().out == '[{"a": 1},\n {"a": 2}]\n'


def test_sql_file_with_views(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(
        "CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (1)",
        encoding="utf-8",
    )
    assert run(monkeypatch, "sql", str(script)) == 0
    assert capsys.readouterr().out == "v: 0 rows, kept up to date\n1 row\n"


def test_sql_error_has_a_caret_and_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "sql", "-c", "SELECT 1 AS a;\nSELECT b FROM nowhere", "-f", "tsv") == 1
    captured = capsys.readouterr()
    assert captured.out == "a\n1\n"
    assert captured.err == (
        'error: relation "nowhere" does not exist\n'
        "line 2: SELECT b FROM nowhere\n"
        "                      ^^^^^^^\n"
    )


def test_sql_missing_file(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "sql", "/nowhere/x.sql") == 1
    assert capsys.readouterr().err == "error: cannot read /nowhere/x.sql: No such file or directory\n"


def test_explain(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text("CREATE TABLE t (a INT)", encoding="utf-8")
    assert run(monkeypatch, "explain", "SELECT a FROM t", "--schema", str(schema), "--stage", "logical") == 0
    assert "t" in capsys.readouterr().out


def test_explain_of_a_view_in_a_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    folder = str(tmp_path / "db")
    with kpg.connect(folder) as db:
        db.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a, count(*) FROM t GROUP BY a")
    assert run(monkeypatch, "explain", "v", "-d", folder) == 0
    assert "Reduce" in capsys.readouterr().out
    assert run(monkeypatch, "explain", "t", "-d", folder) == 1
    assert '"t" is a table' in capsys.readouterr().err


def test_explain_tpch(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "explain", "SELECT count(*) FROM lineitem", "--schema", "tpch") == 0
    assert "lineitem" in capsys.readouterr().out


def test_explain_wrong_stage(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "explain", "SELECT 1", "--stage", "fiction") == 1
    assert "fiction" in capsys.readouterr().err


def test_functions(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "functions", "date_trunc") == 0
    assert capsys.readouterr().out.startswith("date_trunc")
    assert run(monkeypatch, "functions", "no such thing") == 1


def test_functions_are_shown_as_sql_writes_them(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "functions") == 0
    names = {line.split("  takes ")[0] for line in capsys.readouterr().out.splitlines() if "  takes " in line}
    assert {"+", "-", "=", "||", "IN", "IS NULL", "LIKE", "AND", "NOT", "EXTRACT(YEAR)", "upper"} <= names
    assert not {"add", "eq", "concat", "is_null", "extract_year", "order_word", "neg"} & names


def test_explain_in_a_format_for_programs(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(monkeypatch, "sql", "-c", "EXPLAIN LOGICAL SELECT 1", "-f", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows and all(list(row) == ["QUERY PLAN"] for row in rows)
    assert run(monkeypatch, "sql", "-c", "EXPLAIN LOGICAL SELECT 1; SELECT 2 AS n", "-f", "csv") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "QUERY PLAN" and out[-2:] == ["n", "2"]
    assert run(monkeypatch, "sql", "-c", "EXPLAIN LOGICAL SELECT 1") == 0
    assert capsys.readouterr().out.splitlines()[0] == rows[0]["QUERY PLAN"]


@pytest.mark.parametrize("text", ["0", "23", "x", "3-", "1,,x"])
def test_wrong_query_numbers(monkeypatch: pytest.MonkeyPatch, capsys: Captured, text: str) -> None:
    assert run(monkeypatch, "tpch", "--queries", text) == 2
    assert "--queries" in capsys.readouterr().err


def test_tpch_passes_its_options_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import kpg.tpch.job

    given: dict[str, object] = {}
    monkeypatch.setattr(kpg.tpch.job, "run", lambda **options: given.update(options) or 1)
    assert run(monkeypatch, "tpch", "--scale", "0.5", "--queries", "3,5-7", "--data", str(tmp_path)) == 1
    del given["console"]
    assert given == {
        "scale": 0.5,
        "queries": [3, 5, 6, 7],
        "refreshes": 5,
        "batch": None,
        "data": tmp_path,
        "json": None,
        "seed": 1,
    }


def test_prompt_session(db: Database, capsys: Captured) -> None:
    typed = "SELECT 1\r AS one;\r.tables\rSELECT x;\r.nonsense\r.timing\r.quit\r"
    with create_pipe_input() as pipe:
        pipe.send_text(typed)
        session: PromptSession[str] = PromptSession(
            input=pipe, output=DummyOutput(), multiline=True, key_bindings=enter_key_bindings(is_complete)
        )
        assert Prompt(db, Format.TABLE, session).run() == 0
    captured = capsys.readouterr()
    assert "│       one       │" in captured.out
    assert "time: " in captured.out
    assert "timing is off" in captured.out
    assert 'error: column "x" does not exist' in captured.err
    assert "unknown command .nonsense" in captured.err


@pytest.mark.parametrize("word", ["exit", "quit", "QUIT;", " exit ; ", ".quit", ".exit;"])
def test_words_that_leave(db: Database, word: str) -> None:
    assert is_complete(word)
    assert not Prompt(db, Format.TABLE, object()).execute(word)  # type: ignore[arg-type]


def test_words_that_help(db: Database, capsys: Captured) -> None:
    prompt = Prompt(db, Format.TABLE, object())  # type: ignore[arg-type]
    assert is_complete("help") and prompt.execute("help") and prompt.execute("Help;")
    assert capsys.readouterr().out.count(".arrangements") == 2
    assert not is_complete("select help") and not is_complete("helps")


def test_timing(db: Database, capsys: Captured) -> None:
    prompt = Prompt(db, Format.TABLE, object())  # type: ignore[arg-type]
    for command, said in [
        ("off", "off"),
        ("off", "off"),
        ("ON", "on"),
        ("on;", "on"),
        ("", "off"),
        ("", "on"),
    ]:
        assert prompt.execute(f".timing {command}")
        assert capsys.readouterr().out == f"timing is {said}\n"
    assert prompt.execute(".timing perhaps")
    assert capsys.readouterr().err == "error: .timing takes on or off, not perhaps\n"


def test_completion(shop: Database) -> None:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    def completed(text: str) -> list[str]:
        return [one.text for one in NameCompleter(shop).get_completions(Document(text), CompleteEvent())]

    assert completed("SELECT * FROM it") == ["item"]
    assert completed("SELECT pri") == ["price", "primary"]
    assert completed("SEL") == ["SELECT"]
    assert completed("sel") == ["select"]
    assert completed("SELECT ") == []


def test_sql_in_a_folder(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    folder = str(tmp_path / "db")
    script = "create table t (a int); insert into t values (7)"
    assert run(monkeypatch, "sql", "-d", folder, "-c", script) == 0
    assert run(monkeypatch, "sql", "-d", folder, "-f", "csv", "-c", "select a from t") == 0
    assert capsys.readouterr().out.endswith("a\n7\n")
    assert run(monkeypatch, "sql", "-d", folder, "--read-only", "-c", "drop table t") == 1
    assert "was opened with read_only=True" in capsys.readouterr().err
    assert run(monkeypatch, "sql", "--read-only", "-c", "select 1") == 1
    assert "--read-only is about a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("\\d", (".tables", "")),
        ("\\dt;", (".tables", "")),
        ("\\i some file.sql", (".read", "some file.sql")),
        ("\\q", (".quit", "")),
        ("\\x", ("\\x", "")),
        ("select '\\d'", None),
    ],
)
def test_what_users_of_psql_type_is_a_command(text: str, command: tuple[str, str] | None) -> None:
    assert parse_command(text) == command
    assert is_complete(text) is (command is not None)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell: str) -> None:
    shown = {
        "bash": {"_KPG_COMPLETE": "complete_bash", "COMP_WORDS": "kpg da", "COMP_CWORD": "1"},
        "zsh": {"_KPG_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "kpg da"},
        "fish": {
            "_KPG_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_ARGS": "kpg da",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
    }[shell]
    finished = subprocess.run(
        [sys.executable, "-m", "kpg"], env=os.environ | shown, capture_output=True, text=True, check=False
    )
    assert "datalog" in finished.stdout, finished.stderr
