"""Roles at the server: who gets in, and what each way in lets them do."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import kpg
from kpg.compiler.catalog.privileges import Privileges, Role
from kpg.postgres.passwords import DUMMY_VERIFIER, make_verifier
from kpg.postgres.roles import password_verifier
from kpg.server.startup import LoginVerifiers, is_password_expired, parse_verifier
from kpg.server.web.site import Site, is_password
from tests.unit.server.conftest import Running, serving


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    with serving("secret", history="1 hour") as one:
        yield one


def connected(running: Running, user: str, password: str, **more: Any) -> psycopg.Connection[Any]:
    dsn = running.dsn.replace("user=kpg", f"user={user}")
    return psycopg.connect(dsn, password=password, autocommit=True, **more)


@pytest.fixture(scope="module")
def admin(guarded: Running) -> Iterator[psycopg.Connection[Any]]:
    with connected(guarded, "kpg", "secret") as one:
        one.execute("CREATE ROLE ann LOGIN PASSWORD 'right'; CREATE ROLE group_only PASSWORD 'x'")
        one.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 2)")
        one.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(b) AS s FROM t")
        yield one


def test_roles_log_in_with_their_passwords(guarded: Running, admin: Any) -> None:
    with connected(guarded, "ann", "right") as ann:
        assert ann.execute("SELECT current_user, session_user").fetchone() == ("ann", "ann")
        assert ann.execute("SELECT user, current_role").fetchone() == ("ann", "ann")
        assert ann.info.parameter_status("is_superuser") == "off"
        assert ann.info.parameter_status("session_authorization") == "ann"
    with pytest.raises(psycopg.OperationalError, match='password authentication failed for user "ann"'):
        connected(guarded, "ann", "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connected(guarded, "group_only", "x")
    admin.execute("ALTER ROLE ann PASSWORD 'other'")
    with connected(guarded, "ann", "other"):
        pass
    admin.execute("ALTER ROLE ann PASSWORD 'right' VALID UNTIL '2001-01-01'")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connected(guarded, "ann", "right")
    for moment in ("May 4 2001 12:00 Europe/Rome", "epoch", "-infinity"):
        admin.execute(f"ALTER ROLE ann VALID UNTIL '{moment}'")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connected(guarded, "ann", "right")
    admin.execute("SET timezone TO 'America/New_York'; ALTER ROLE ann VALID UNTIL 'May 4 2999 12:00'")
    admin.execute("RESET timezone")
    shown = "SELECT rolvaliduntil::text FROM pg_roles WHERE rolname = 'ann'"
    assert admin.execute(shown).fetchone() == ("2999-05-04 16:00:00+00",)
    for wrong, error in (
        ("tomorrow or so", psycopg.errors.InvalidDatetimeFormat),
        ("2001-13-01", psycopg.errors.DatetimeFieldOverflow),
    ):
        with pytest.raises(error):
            admin.execute(f"ALTER ROLE ann VALID UNTIL '{wrong}'")
    with connected(guarded, "ann", "right"):
        pass
    admin.execute("ALTER ROLE ann VALID UNTIL 'infinity'")


def test_roles_have_settings_and_a_number_of_connections(guarded: Running, admin: Any) -> None:
    admin.execute("ALTER ROLE ann CONNECTION LIMIT 1; ALTER ROLE ann SET statement_timeout = '7s'")
    with connected(guarded, "ann", "right") as ann:
        assert ann.execute("SHOW statement_timeout").fetchone() == ("7s",)
        with pytest.raises(psycopg.OperationalError, match='too many connections for role "ann"'):
            connected(guarded, "ann", "right")
    admin.execute("ALTER ROLE ann CONNECTION LIMIT -1; ALTER ROLE ann RESET ALL")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM t",
        "INSERT INTO t VALUES (5, 5)",
        "UPDATE t SET b = 1",
        "DELETE FROM t",
        "TRUNCATE t",
        "SELECT * FROM v",
        "COPY t TO STDOUT",
        "COPY (SUBSCRIBE v) TO STDOUT",
        "SUBSCRIBE v",
        "EXPLAIN ROW v WHERE true",
        "VERIFY VIEW v",
        "EXPLAIN SELECT * FROM t",
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t",
        "CREATE TABLE copied AS SELECT * FROM t",
        "SELECT * FROM t AS OF 1",
        "SELECT * FROM '/etc/passwd.csv'",
        "COPY (SELECT 1) TO '/tmp/nowhere'",
    ],
)
def test_who_has_no_privilege_is_refused(guarded: Running, admin: Any, statement: str) -> None:
    with connected(guarded, "ann", "right") as ann, pytest.raises(psycopg.Error) as refused:
        ann.execute(statement)
    assert refused.value.sqlstate == "42501"


def test_plans_and_statements_that_are_used_again_ask_again(guarded: Running, admin: Any) -> None:
    admin.execute("GRANT INSERT, SELECT ON t TO ann")
    with connected(guarded, "ann", "right", prepare_threshold=0) as ann:
        for number in range(3):
            ann.execute("INSERT INTO t VALUES (%s, 0)", [100 + number])
            assert ann.execute("SELECT b FROM t WHERE a = %s", [100 + number]).fetchone() == (0,)
            admin.execute("INSERT INTO t VALUES (%s, 0)", [200 + number])
            assert admin.execute("SELECT b FROM t WHERE a = %s", [200 + number]).fetchone() == (0,)
        admin.execute("REVOKE INSERT, SELECT ON t FROM ann")
        for statement in ("INSERT INTO t VALUES (%s, 0)", "SELECT b FROM t WHERE a = %s"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table t"):
                ann.execute(statement, [105])
            admin.execute(statement, [300])


def test_warnings_and_notices_are_told(guarded: Running, admin: Any) -> None:
    said: list[Any] = []
    admin.add_notice_handler(lambda one: said.append((one.severity, one.sqlstate, one.message_primary)))
    admin.execute("DROP ROLE IF EXISTS nobody")
    admin.execute("SET LOCAL statement_timeout = '5s'")
    admin.execute(
        "SET client_min_messages = 'warning'; DROP ROLE IF EXISTS nobody; RESET client_min_messages"
    )
    assert said == [
        ("NOTICE", "00000", 'role "nobody" does not exist, skipping'),
        ("WARNING", "25P01", "SET LOCAL can only be used in transaction blocks"),
    ]


def test_http_asks_for_the_same_rights(guarded: Running, admin: Any) -> None:
    site = Site(guarded.server)
    guarded.call(site.start("127.0.0.1", 0))

    def post(path: str, text: str, kind: str) -> tuple[int, dict[str, Any]]:
        pair = base64.b64encode(b"ann:right").decode()
        headers = {"Content-Type": f"application/{kind}", "Authorization": f"Basic {pair}"}
        url = f"http://127.0.0.1:{site.address[1]}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, text.encode(), headers)) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    try:
        status, body = post("/sql", "SELECT * FROM t", "sql")
        assert (status, body["error"]["sqlstate"]) == (403, "42501")
        status, body = post("/datalog", ".decl r(a: number)\nr(1).", "datalog")
        assert (status, body["error"]["sqlstate"]) == (403, "42501")
        assert post("/sql", "SELECT current_user AS u", "sql")[1]["results"][0]["rows"] == [["ann"]]
    finally:
        guarded.call(site.stop())


def test_roles_are_there_when_a_folder_is_opened_again(tmp_path: Any) -> None:
    with kpg.connect(tmp_path / "db") as db:
        db.sql("CREATE ROLE ann LOGIN PASSWORD 'x'; CREATE ROLE bob; GRANT bob TO ann; CREATE SCHEMA s")
        db.sql("CREATE TABLE t (a INT, b INT); GRANT SELECT (a) ON t TO bob; ALTER TABLE t OWNER TO ann")
        db.sql("ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO bob")
        asked = (
            "SELECT relname, relacl::text FROM pg_class WHERE relname = 't'",
            "SELECT attname, attacl::text FROM pg_attribute WHERE attacl IS NOT NULL",
            "SELECT rolname, rolpassword FROM pg_authid WHERE rolname IN ('ann', 'bob') ORDER BY 1",
            "SELECT tableowner FROM pg_tables WHERE tablename = 't'",
            "SELECT defaclobjtype, defaclacl::text FROM pg_default_acl",
        )
        before = [db.sql(one).fetchall() for one in asked]
        assert before[3] == [("ann",)]
    with kpg.connect(tmp_path / "db") as db:
        assert [db.sql(one).fetchall() for one in asked] == before
        with pytest.raises(kpg.ProgrammingError, match='role "nobody" does not exist'):
            db.session("nobody")
        with db.session("bob") as bob:
            assert bob.sql("SELECT a FROM t").fetchall() == []
            with pytest.raises(kpg.Error, match="permission denied for table t"):
                bob.sql("SELECT b FROM t")


def test_what_is_kept_of_a_password_is_what_postgres_keeps() -> None:
    verifier = parse_verifier(password_verifier("word"))
    assert verifier is not None and is_password(verifier, "word") and not is_password(verifier, "other")
    assert password_verifier(password_verifier("word")).count("SCRAM-SHA-256$4096:") == 1
    assert parse_verifier("md5d3b07384d113edec49eaa6238ad5ff00") is None
    first = {"kpg": make_verifier("a")}
    people = LoginVerifiers(
        first,
        Privileges({"ann": Role("ann", logs_in=True), "bob": Role("bob", password=password_verifier("x"))}),
    )
    assert people.get("kpg", DUMMY_VERIFIER) is first["kpg"]
    assert [people.get(name, DUMMY_VERIFIER) for name in ("ann", "bob", "nobody")] == [DUMMY_VERIFIER] * 3
    assert is_password_expired(Role("a", until="2001-01-01")) and not is_password_expired(
        Role("a", until="infinity")
    )


def test_for_update_locks_what_from_names_and_not_what_conditions_read() -> None:
    with kpg.connect() as db:
        db.sql("CREATE TABLE t (a INT); CREATE TABLE u (a INT)")
        db.sql("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); CREATE ROLE ann")
        db.sql("GRANT SELECT, UPDATE ON t TO ann; GRANT SELECT ON u TO ann; SET ROLE ann")
        assert db.sql("SELECT a FROM t WHERE a IN (SELECT a FROM u) FOR UPDATE").fetchall() == [(1,)]
        with pytest.raises(kpg.Error, match="permission denied for table u"):
            db.sql("SELECT a FROM u FOR UPDATE")


def test_whom_a_role_may_end(guarded: Running, admin: psycopg.Connection[Any]) -> None:
    admin.execute("CREATE ROLE ender LOGIN PASSWORD 'e'")
    pids = "select pg_cancel_backend(%s)", "select pg_terminate_backend(%s)"
    with connected(guarded, "ender", "e") as one, connected(guarded, "ann", "right") as other:
        for text, does in zip(pids, ("cancel query", "terminate process"), strict=True):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"denied to {does}"):
                one.execute(text, (admin.info.backend_pid,))
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"denied to {does}") as caught:
                one.execute(text, (other.info.backend_pid,))
            assert "pg_signal_backend" in str(caught.value.diag.message_detail)
        with connected(guarded, "ender", "e") as own:
            assert one.execute(pids[0], (own.info.backend_pid,)).fetchone() == (True,)
        admin.execute("GRANT pg_signal_backend TO ender")
        assert one.execute(pids[0], (other.info.backend_pid,)).fetchone() == (True,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
            one.execute(pids[0], (admin.info.backend_pid,))


def test_with_trust_too_a_client_is_a_role() -> None:
    with serving() as running:
        with pytest.raises(psycopg.OperationalError, match='role "nobody" does not exist'):
            connected(running, "nobody", "")
        with pytest.raises(psycopg.OperationalError, match='role "pg_monitor" is not permitted to log in'):
            connected(running, "pg_monitor", "")
        with connected(running, "kpg", "") as one:
            one.execute("CREATE ROLE ann LOGIN")
        with connected(running, "ann", "") as one:
            assert one.execute("select current_user").fetchone() == ("ann",)
