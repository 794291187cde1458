"""Every way in which a text of a session names a file is refused to a role without rights to files.

Three lists are held against the code: the readers and functions of SQL, the directives of Datalog, and the
modules that open, list or load anything. A new one fails a test until it is listed. A refusal does not tell
whether there is such a file, or what is in it, and touches nothing.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import kpg
from kpg.api.database import Database
from kpg.compiler.datalog.types.declarations import IO_KINDS
from kpg.compiler.rules.core import TransferKind
from kpg.compiler.sql.rewrite.external_tables import READERS
from kpg.runtime.errors import DatalogError, PrivilegeError
from kpg.runtime.functions import functions
from kpg.runtime.functions.table_functions import row_functions
from kpg.server.web.statement_api import run_datalog
from kpg.session.session import Session
from tests.unit.server.web.conftest import web_of

ROOT: Final = Path(__file__).parents[3]
MARK: Final = "hunter2"
SETUP: Final = """
create role bob login; create role clerk login;
grant pg_read_server_files, pg_write_server_files to clerk;
grant create on schema public to bob, clerk;
create table t (a text, b text); insert into t values ('x', 'y'); grant all on t to bob, clerk;
"""

SQL: Final = (
    *("copy t from '{}'", "copy t (a) from '{}' with (format csv)", "copy t from program 'cat {}'"),
    *(
        "copy t to '{}'",
        "copy (select 1) to '{}'",
        "copy (select * from '{}') to stdout",
        "copy t to program '{}'",
    ),
    *("select * from '{}'", "table '{}'", "explain select * from '{}'", "explain analyze select * from '{}'"),
    *(f"select * from {reader}('{{}}')" for reader in READERS),
    *(f"select * from {reader}(['{{}}', '{{}}'])" for reader in READERS),
    *("select (select count(*) from '{}')", "with q as (select * from '{}') select * from q"),
    *("select * from t, lateral (select * from '{}') q", "select a from t union select a from '{}'"),
    *("create table u as select * from '{}'", "create view v as select * from '{}'"),
    *("create materialized view m as select * from '{}'", "create temp table u as select * from '{}'"),
    *("insert into t select * from '{}'", "update t set b = 'z' from '{}' f where true"),
    *("delete from t using '{}' f", "merge into t using '{}' f on true when matched then delete"),
    *("prepare p as select * from '{}'; execute p", "begin; declare c cursor for select * from '{}'"),
    "create function f() returns bigint language sql as $$ select count(*) from '{}' $$; select f()",
    "create policy p on t using (exists (select from '{}'))",
    *("create function f() returns int language c as '{}', 'f'", "load '{}'", 'create extension "{}"'),
    *(
        "create tablespace s location '{}'",
        "attach '{}' as x",
        "export database '{}'",
        "import database '{}'",
    ),
    *("create server s foreign data wrapper file_fdw", "create foreign table x (a int) server '{}'"),
    *("create table x (a int) with (connector = 'file', path = '{}')", "set data_directory = '{}'"),
    *("set local_preload_libraries = '{}'", "set dynamic_library_path = '{}'", "set temp_tablespaces = '{}'"),
    *("select lo_import('{}')", "select lo_export(1, '{}')", "select dblink_connect('{}')"),
    *("select pg_read_binary_file('{}')", "select pg_stat_file('{}')", "select * from pg_ls_logdir()"),
    *(
        "alter system set data_directory = '{}'",
        "select pg_reload_conf()",
        "backup to '{}'",
        "checkpoint '{}'",
    ),
    *("select xmlparse(document '<!DOCTYPE a [<!ENTITY b SYSTEM \"{}\">]><a>&b;</a>')",),
    *("begin; copy t from '{}'", "select * from '{}' as of 1", "verify '{}'", "subscribe to '{}'"),
)
"""Statements with the place of a path. Those that do not exist are refused by name, which is as good."""

DATALOG: Final = (
    *('.include "{}"', '#include "{}"', "#include <{}>", '  .include "{}"  ', '#define X 1\n#include "{}"'),
    *(
        '?- t(x, y).\n.include "{}"',
        '+t("a", "b").\n#include "{}"',
        '.decl q(x: symbol)\nq("\n.include "{}"\n").',
    ),
    *('.comp C {\n.include "{}"\n}', '#ifdef X\n#else\n#include "{}"\n#endif', '.once\n.include "{}"'),
    '.decl q(x: symbol)\n.input q(filename="{}")',
    '.decl q(x: symbol)\n.input q(IO=sqlite, dbname="{}")',
    *(f'.decl q(x: symbol)\n.input q(IO={kind}, filename="{{}}")' for kind in IO_KINDS[TransferKind.INPUT]),
    '.decl q(x: symbol)\nq("a").\n.output q',
    *(
        f'.decl q(x: symbol)\nq("a").\n.output q(IO={kind}, filename="{{}}")'
        for kind in IO_KINDS[TransferKind.OUTPUT]
    ),
    *(f'.decl q(x: symbol)\nq("a").\n.printsize q(IO={kind})' for kind in IO_KINDS[TransferKind.PRINTSIZE]),
    *(".decl q(x: symbol)\n.printsize q", '.pragma "library-dir" "{}"', '.pragma "libraries" "{}"'),
    *(".functor f(x: symbol): symbol", ".functor f(x: symbol): symbol stateful", '.include "{}/../{}"'),
)

CALLS: Final = frozenset(
    {
        *(
            "open",
            "read_text",
            "read_bytes",
            "write_text",
            "write_bytes",
            "iterdir",
            "glob",
            "scandir",
            "listdir",
        ),
        *("import_module", "__import__", "urlopen", "Popen", "system", "CDLL", "memory_map", "OSFile"),
        *(
            "ParquetFile",
            "ParquetDataset",
            "open_csv",
            "dataset",
            "open_stream",
            "open_file",
            "sqlite3.connect",
        ),
    }
)
"""What opens, lists or loads something, by the last part of its name."""
REACHED: Final = (
    *("compiler", "kpg/datalog", "kpg/execute", "kpg/postgres", "kpg/provenance", "kpg/server"),
    *("kpg/session", "runtime/convert", "runtime/functions"),
)
"""The folders whose code a text of a session can have run."""
OPENERS: Final = {
    "compiler/datalog/check.py": "include, behind `reader`",
    "compiler/datalog/parser.py": "the grammar",
    "kpg/datalog/fact_files.py": ".input, behind `check_program`",
    "kpg/datalog/fact_formats.py": ".input, behind `check_program`; .output, which the command line writes",
    "kpg/datalog/output_files.py": ".output, which the command line writes",
    "kpg/execute/changes/copy.py": "COPY, behind `require_file_access`",
    "kpg/execute/changes/bulk_load.py": "Database.load, which no text calls",
    "kpg/session/memory_limit.py": "/proc and /sys, by names of its own",
    "kpg/session/snapshot_query.py": "/proc, by names of its own, in a child",
    "kpg/server/binary_input.py": "no file: bytes of a message",
    "kpg/server/process.py": "the certificate that the server was started with",
    "kpg/server/web/dataflow_page.py": "the page: its own files",
    "kpg/server/web/site.py": "the page: names of a folder listed at the start; /proc",
    "kpg/execute/registry.py": "modules of handlers, by names of its own",
    "runtime/convert/files.py": "FROM, behind `require_file_access`; Database.load",
    "runtime/functions/autoload.py": "modules of the registry, by names of its own",
}

events: list[tuple[str, str]] = []
watched: list[str] = []


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if watched and event in (
        "open",
        "os.listdir",
        "os.scandir",
        "sqlite3.connect",
        "subprocess.Popen",
        "glob.glob",
    ):
        events.append((event, str(args[0])))


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Nothing in a folder is opened or listed meanwhile, and nothing new is in it."""
    if not hasattr(sys, "_kpg_audited"):
        sys.addaudithook(_audit)
        sys._kpg_audited = True  # type: ignore[attr-defined]
    before = sorted(folder.iterdir())
    events.clear()
    watched.append(str(folder))
    try:
        yield
    finally:
        watched.clear()
    assert not [one for one in events if str(folder) in one[1]], events
    assert sorted(folder.iterdir()) == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files with something that nobody is to see."""
    found = tmp_path / "secrets"
    found.mkdir()
    for name in ("there.csv", "there.facts", "there.dl", "there.json"):
        (found / name).write_text(f"{MARK},{MARK}\n")
    (found / "link.csv").symlink_to(found / "there.csv")
    return found


@pytest.fixture
def db() -> Iterator[Database]:
    with kpg.connect() as opened:
        opened.sql(SETUP)
        yield opened


def spellings(folder: Path, suffix: str) -> list[tuple[str, str]]:
    """Ways to write the path of a file that is there, and, as long, of one that is not."""
    return [
        (f"{folder}/there.{suffix}", f"{folder}/nosuc.{suffix}"),
        (f"{folder}/link.csv", f"{folder}/none.csv"),
        (f"file://{folder}/there.{suffix}", f"file://{folder}/nosuc.{suffix}"),
        (f"{folder}/../{folder.name}/./there.{suffix}", f"{folder}/../{folder.name}/./nosuc.{suffix}"),
        (f"{folder}/the*.{suffix}", f"{folder}/nos*.{suffix}"),
        (f"{folder}/the??.{suffix}", f"{folder}/nos??.{suffix}"),
        (f"{folder}/there.{suffix}/x.{suffix}", f"{folder}/nosuc.{suffix}/x.{suffix}"),
        (f"{folder}", f"{folder}"[:-1] + "z"),
    ]


def outcome(call: Callable[[str], object], path: str) -> str:
    """What comes out of a call for a path, with PATH for the path: an error, or what is shown."""
    try:
        shown = repr(call(path))
    except kpg.InternalError:
        raise
    except kpg.Error as error:
        assert MARK not in f"{error} {error.detail}", error
        shown = f"{type(error).__name__}: {error.message} {error.hint} {error.detail}"
    assert MARK not in shown, shown
    return shown.replace(path, "PATH").replace(path.replace("/", "\\/"), "PATH")


def check(call: Callable[[str], object], folder: Path, suffix: str) -> None:
    """Nothing is touched, and the answer is one and the same whether there is a file."""
    for there, missing in spellings(folder, suffix):
        with untouched(folder):
            found = [outcome(call, one) for one in (there, missing)]
        assert found[0] == found[1], there


def as_sql(session: Session, text: str) -> Callable[[str], object]:
    def call(path: str) -> object:
        try:
            result = session.sql(text.replace("{}", path))
            return None if result is None else result.fetchall()
        finally:
            session.sql("rollback; deallocate all; drop table if exists x, u")

    return call


def as_datalog(session: Session, text: str) -> Callable[[str], object]:
    engine = session.session_manager.engine
    return lambda path: session.run(lambda _: run_datalog(engine, text.replace("{}", path), {}))


@pytest.mark.parametrize("text", SQL)
def test_of_sql(db: Database, folder: Path, text: str) -> None:
    bob = db.session("bob")
    check(as_sql(bob, text), folder, "csv")
    bob.sql("rollback")
    there = f"{folder}/there.csv"
    if " program " not in text and any(
        word in text for word in (*READERS, "from '{}'", "using '{}'", "to '{}'")
    ):
        try:
            as_sql(bob, text)(there)
        except kpg.Error as error:
            names_file = isinstance(error, PrivilegeError)
            assert names_file or "syntax" in str(error) or "support" in str(error) or "not" in str(error)
        else:
            raise AssertionError(f"{text} ran")


@pytest.mark.parametrize("text", DATALOG)
def test_of_datalog(db: Database, folder: Path, text: str) -> None:
    bob = db.session("bob")
    check(as_datalog(bob, text), folder, "dl")
    with pytest.raises((PrivilegeError, DatalogError)):
        as_datalog(bob, text)(f"{folder}/there.dl")


@pytest.mark.parametrize("text", DATALOG)
def test_of_datalog_where_the_role_is_set(db: Database, folder: Path, text: str) -> None:
    """Of the database itself, and with folders of facts and of included files."""
    db.sql("set role bob")
    check(lambda path: db.datalog(text.replace("{}", path)), folder, "dl")
    short = text.replace("{}", "there.dl")
    for given in ({"include": [folder]}, {"facts": folder}, {"filename": f"{folder}/x.dl"}):
        with (
            untouched(folder),
            pytest.raises((PrivilegeError, DatalogError)) as raised,
        ):
            db.datalog(short, **given)  # type: ignore[arg-type]
        assert MARK not in str(raised.value)


def test_facts_of_an_input_without_options(db: Database, folder: Path) -> None:
    (folder / "q.facts").write_text(f"{MARK}\n")
    program = ".decl q(x: symbol)\n.input q\n"
    db.sql("set role bob")
    with pytest.raises(PrivilegeError, match=r"permission denied to read files by \.input"):
        db.datalog(program, facts=folder)
    db.datalog(program).drop()  # it names no file, its facts come by updates
    db.sql("reset role; set role clerk")
    assert [*db.datalog(program, facts=folder).rows("q")] == [(MARK,)]


def test_who_may_have_files_read_and_written(db: Database, folder: Path, tmp_path: Path) -> None:
    """The same texts, of a role with the rights, and of the database itself: nothing else is in their way."""
    clerk = db.session("clerk")
    there = folder / "there.csv"
    assert clerk.sql(f"select * from read_csv('{there}', header = false)").fetchall() == [(MARK, MARK)]
    clerk.sql(f"copy t from '{there}'")
    clerk.sql(f"copy t to '{tmp_path}/out.csv'")
    (folder / "rules.dl").write_text('.decl q(x: symbol)\nq("a").\n')
    for user in ("clerk", "kpg"):
        session = db.session(user)
        engine = session.session_manager.engine
        text = f'.include "{folder}/rules.dl"\n?- q(x).'
        _, answers = session.run(lambda _, engine=engine, text=text: run_datalog(engine, text, {}))
        assert answers[0][1].fetchall() == [("a",)]
        session.sql("drop table q cascade")
        session.close()
    program = db.datalog(f'.include "{folder}/rules.dl"\n.output q')
    assert program.rows("q").fetchall() == [("a",)]


def test_of_functions(db: Database, folder: Path) -> None:
    """Every function of the registry with a path for each of its arguments: none of them touches a file."""
    bob = db.session("bob")
    names = sorted({one.name for one in functions()} | {one.name for one in row_functions()})
    assert len(names) > 300
    with untouched(folder):
        for name in names:
            for count in (1, 2, 3):
                given = ", ".join([f"'{folder}/there.csv'"] * count)
                for text in (f'select "{name}"({given})', f'select * from "{name}"({given}) f limit 3'):
                    assert MARK not in outcome(as_sql(bob, text), f"{folder}/there.csv")


def test_every_module_that_opens_something_is_listed() -> None:
    found = {
        str(path.relative_to(ROOT))
        for top in REACHED
        for path in sorted((ROOT / top).rglob("*.py"))
        if any(
            (isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in CALLS)
            or (isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS)
            for node in ast.walk(ast.parse(path.read_text()))
        )
    }
    assert found == set(OPENERS)


def test_over_http(folder: Path) -> None:
    """Texts by POST, goals that are followed, and the names of the page's own files."""
    with web_of("owner") as web:
        web.user = ("kpg", "owner")
        assert web.sql(SETUP + "alter role bob password 'b'")[0] == 200
        web.user = ("bob", "b")
        path = f"{folder}/there.dl"
        with untouched(folder):
            for text in SQL[:30]:
                status, found = web.sql(text.replace("{}", path))
                assert MARK not in str(found)
                assert status != 200 or "error" in str(found), (text, found)
            for text in DATALOG:
                status, found = web.datalog(text.replace("{}", path))
                assert (status != 200, MARK not in str(found)) == (True, True), (text, found)
            for goal in (f'?- t(x, y).%0A.include "{path}"', f'.include "{path}"'):
                status, _, data = web.ask("GET", f"/subscribe?goal={goal.replace(' ', '%20')}")
                assert status != 200
                assert MARK.encode() not in data
            for name in ("../../../../../etc/passwd", f"{path}", "%2e%2e/%2e%2e/etc/passwd", "..%2fsite.py"):
                for method in ("GET", "HEAD", "POST"):
                    status, _, data = web.ask(method, f"/{name}")
                    assert status >= 400
                    assert b"root:" not in data
                    assert MARK.encode() not in data
