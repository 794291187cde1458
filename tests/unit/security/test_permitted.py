"""Who may do what, beyond what scripts beside Postgres show: functions of one name have one owner, COPY."""

from pathlib import Path

import pytest

import kpg
from kpg.runtime.errors import PrivilegeError

SETUP = """
create role bob;
grant create on schema public to bob;
create table secret (a int);
insert into secret values (7);
create function f(x int) returns text language sql as 'select current_user::text';
"""
PEEKS = "language sql security definer as 'select max(a)::text from secret'"


def test_nobody_puts_a_function_among_somebody_elses() -> None:
    with kpg.connect() as db:
        db.sql(SETUP)
        bob = db.session("bob")
        for text in (
            f"create function f(x text) returns text {PEEKS}",
            f"create or replace function f(x int, y int) returns text {PEEKS}",
        ):
            with pytest.raises(PrivilegeError, match="must be owner of function f"):
                bob.sql(text)
        bob.sql(f"create function g(x text) returns text {PEEKS}")
        with pytest.raises(PrivilegeError, match="must be owner of function f"):
            bob.sql("alter function g(text) rename to f")
        with pytest.raises(PrivilegeError, match="permission denied for table secret"):
            bob.sql("select g('')")
        bob.sql("create function g(x int) returns int language sql as 'select 1'")
        assert bob.sql("select g(1)").fetchall() == [(1,)]


def test_copy_takes_no_numbers_of_a_sequence_without_the_right_to(tmp_path: Path) -> None:
    file = tmp_path / "rows.txt"
    file.write_text("x\n")
    with kpg.connect() as db:
        db.sql("create role bob; grant pg_read_server_files to bob; create table t (k serial, a text)")
        db.sql("grant insert on t to bob")
        bob = db.session("bob")
        copy = f"copy t (a) from '{file}' with (format text)"
        with pytest.raises(PrivilegeError, match="permission denied for sequence t_k_seq"):
            bob.sql(copy)
        db.sql("grant usage on sequence t_k_seq to bob")
        bob.sql(copy)
        assert db.sql("select * from t").fetchall() == [(1, "x")]


def test_the_text_of_a_view_is_shown_to_those_who_own_it() -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); create view v as select a from t; create view w as select a from t")
        db.sql("create role owner; create role member; create role reader; grant owner to member")
        db.sql("alter view v owner to owner; grant select on v, w to reader, member")
        query = "select table_name, view_definition from information_schema.views order by 1"
        shown = " select a from t;"
        expected = {
            "kpg": [("v", shown), ("w", shown)],
            "member": [("v", shown), ("w", None)],
            "reader": [("v", None), ("w", None)],
        }
        for role, rows in expected.items():
            session = db.session(role)
            assert session.sql(query).fetchall() == rows
            session.close()
