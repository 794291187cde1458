"""The core runs without the extension that comes with it; CI runs more of its tests so."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = """
import tests.without_postgres
import sys
import kpg

db = kpg.connect()
db.sql("create table edge (a int, b int, primary key (a, b))")
db.sql("create materialized view degree as select a, count(*) as n from edge group by a")
db.sql("insert into edge values (1, 2), (2, 3), (1, 3); delete from edge where b = 2")
assert sorted(db.view("degree")) == [(1, 1), (2, 1)]
db.sql("alter table edge add column w int; alter table edge drop column w; discard all")
db.datalog('''
    .decl reach(a: number, b: number)
    reach(x, y) :- edge(x, y).
    reach(x, z) :- reach(x, y), edge(y, z).
''')
db.sql("insert into edge values (3, 1)")
assert sorted(db.query("select b from reach where a = 1")) == [(1,), (3,)]
with db.dataflow("paths") as flow:
    edges = flow.import_("edge")
    edges.join(edges, {"b": "a"}, lambda x, y: (x.a, y.b)).export("two")
    assert sorted(db.query("select * from two")) == [(1, 1), (2, 1), (3, 3)]
writes = "select a * 10 + b as at, a as node, b as value from edge"
likes = db.ego("likes", edges="edge", writes=writes, aggregate="sum", window=2)
assert likes.read(2) == 1
refused = "create role ann", "grant select on edge to public", "alter table edge enable row level security"
for text in refused:
    try:
        db.sql(text)
    except kpg.NotSupportedError as error:
        print(error.message)
assert not [name for name in sys.modules if name.startswith("kpg.postgres")]
"""


def test_the_core_without_its_extension() -> None:
    done = subprocess.run([sys.executable, "-c", CORE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "no handler is registered for statements of the class CreateRole",
        "no handler is registered for statements of the class Grant",
        "roles and row policies are not available",
    ], done.stderr


def test_a_folder_with_roles_is_not_opened_to_everyone(tmp_path: Path) -> None:
    connect = f"import kpg\ndb = kpg.connect({str(tmp_path / 'db')!r})\n"
    made = "db.sql('create role ann; create table t (i int); alter table t owner to ann')\ndb.close()"
    subprocess.run([sys.executable, "-c", connect + made], cwd=ROOT, check=True)
    defined = "db.sql('create view v as select * from t')"
    done = subprocess.run(
        [sys.executable, "-c", f"import tests.without_postgres\n{connect}{defined}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "roles and row policies are not available" in done.stderr
    assert "install kpg.postgres" in done.stderr
