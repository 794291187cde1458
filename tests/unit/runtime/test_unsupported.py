"""Features of Postgres that are refused by name, with a hint."""

import pytest

import kpg
from kpg.postgres.sqlstate import sqlstate_of
from kpg.runtime import unsupported_features
from kpg.runtime.errors import DatalogError

TYPES = """box circle line lseg money path point polygon tsquery tsvector xml"""
"""The names of all types that are refused."""
FUNCTIONS = """
    area array_to_tsvector bound_box box center circle diagonal diameter get_current_ts_config
    height isclosed ishorizontal isopen isparallel isperp isvertical json_to_tsvector
    jsonb_to_tsvector line lseg money npoints numnode path pclose phraseto_tsquery plainto_tsquery
    point polygon popen querytree radius setweight slope strip to_tsquery to_tsvector ts_debug
    ts_delete ts_filter ts_headline ts_lexize ts_parse ts_rank ts_rank_cd ts_rewrite ts_stat
    ts_token_type tsquery_phrase tsvector_to_array websearch_to_tsquery width xml_is_well_formed
    xmlcomment xpath xpath_exists
"""
"""The names of all functions that are refused."""
OPERATORS = "## ?# ?- ?-| ?|| <-> <<| |>> &<| |&> <^ >^ ~= @-@"
"""The operators that are refused."""
PREFIX = ("?-", "@-@")
"""Those of them that may stand before one operand."""
SYNTAX = {
    "EXCLUDE": "CREATE TABLE t (a int4range, EXCLUDE USING gist (a WITH &&))",
    "INHERIT": "CREATE TABLE t (a int); CREATE TABLE u (a int); ALTER TABLE u INHERIT t",
    "INHERITS": "CREATE TABLE t (a int); CREATE TABLE u () INHERITS (t)",
    "RULE": "CREATE RULE r AS ON INSERT TO t DO NOTHING",
    "TRIGGER": "CREATE OR REPLACE TRIGGER a AFTER INSERT ON t EXECUTE FUNCTION f()",
    "CONSTRAINT TRIGGER": "CREATE CONSTRAINT TRIGGER a AFTER INSERT ON t EXECUTE FUNCTION f()",
    "EVENT TRIGGER": "CREATE EVENT TRIGGER a ON ddl_command_start EXECUTE FUNCTION f()",
    "PROCEDURE": "CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'",
    "DO": "DO $$ BEGIN END $$",
    "CALL": "CALL p(1)",
    "TEXT SEARCH": "CREATE TEXT SEARCH CONFIGURATION c (COPY = english)",
}
"""The objects, statements and clauses that are refused, each with a statement that has it."""


def refusal(database: kpg.Database, statement: str) -> kpg.Error:
    with pytest.raises(kpg.NotSupportedError) as caught:
        database.sql(statement)
    return caught.value


def assert_refused(database: kpg.Database, statement: str, message: str, hint: str) -> None:
    error = refusal(database, statement)
    assert (error.message, error.hint, sqlstate_of(error)) == (message, hint, "0A000")
    assert error.span is not None


def test_the_table_holds_these_names() -> None:
    assert sorted(unsupported_features.TYPES) == sorted(TYPES.split())
    assert sorted(unsupported_features.FUNCTIONS) == sorted(FUNCTIONS.split())
    assert sorted(unsupported_features.OPERATORS) == sorted(OPERATORS.split())
    assert sorted(unsupported_features.SYNTAX) == sorted(SYNTAX)


@pytest.mark.parametrize("name", TYPES.split())
def test_type_is_refused(name: str) -> None:
    database = kpg.connect()
    message, hint = f'type "{name}" is not supported', unsupported_features.TYPES[name]
    for statement in (
        f"CREATE TABLE t (a {name})",
        f"CREATE TABLE t (a {name}[])",
        f"CREATE DOMAIN d AS {name}",
        f"CREATE FUNCTION f(a {name}) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        f"SELECT '1'::{name}",
        f"SELECT CAST(1 AS pg_catalog.{name})",
        f"SELECT {name} '1'",
        f"SELECT '{name}'::regtype",
    ):
        assert_refused(database, statement, message, hint)
    with pytest.raises(kpg.Error, match=f'type "{name}" is not supported'):
        database.sql(f"SELECT pg_input_is_valid('1', '{name}')")


@pytest.mark.parametrize("name", TYPES.split())
def test_users_may_have_a_type_of_that_name(name: str) -> None:
    database = kpg.connect()
    database.sql(f"CREATE DOMAIN {name} AS text")
    assert database.sql(f"SELECT '1'::{name}").fetchall() == [("1",)]


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_function_is_refused(name: str) -> None:
    message, hint = f"function {name} is not supported", unsupported_features.FUNCTIONS[name]
    for statement in (f"SELECT {name}('a')", f"SELECT pg_catalog.{name}('a')", f"SELECT * FROM {name}('a')"):
        assert_refused(kpg.connect(), statement, message, hint)


def test_the_place_of_a_type_is_its_name() -> None:
    span = refusal(kpg.connect(), "CREATE TABLE t (id int, a polygon)").span
    assert span is not None and span.source[span.start : span.end] == "polygon"


def test_a_datalog_program_that_calls_a_function_is_refused_at_its_place() -> None:
    with pytest.raises(DatalogError) as caught:
        kpg.connect().datalog(".decl r(x: number) .output r\nr(x) :- x = area(1).")
    span = caught.value.span
    assert (caught.value.message, caught.value.hint) == (
        "function area is not supported",
        unsupported_features.FUNCTIONS["area"],
    )
    assert span is not None and span.source[span.start : span.end] == "area(1)"


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_users_may_have_a_function_of_that_name(name: str) -> None:
    database = kpg.connect()
    database.sql(f"CREATE FUNCTION {name}(a int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1'")
    assert database.sql(f"SELECT {name}(1)").fetchall() == [(2,)]


@pytest.mark.parametrize("name", OPERATORS.split())
def test_operator_is_refused(name: str) -> None:
    message, hint = f"operator {name} is not supported", unsupported_features.OPERATORS[name]
    statements = [f"SELECT {name} 1"] if name in PREFIX else []
    for statement in [*statements, f"SELECT 1 {name} 2"]:
        assert_refused(kpg.connect(), statement, message, hint)


@pytest.mark.parametrize("name", SYNTAX)
def test_syntax_is_refused(name: str) -> None:
    error = refusal(kpg.connect(), SYNTAX[name])
    assert name in error.message
    assert (error.hint, sqlstate_of(error)) == (unsupported_features.SYNTAX[name], "0A000")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE RULE r AS ON DELETE TO t DO INSTEAD (INSERT INTO t VALUES (1); DELETE FROM t)",
        "ALTER RULE r ON t RENAME TO s",
        "ALTER TABLE t DISABLE RULE r",
        "ALTER TABLE t ENABLE ALWAYS RULE r",
        "DROP RULE IF EXISTS r ON t",
    ],
)
def test_every_statement_about_rules_is_refused(statement: str) -> None:
    database = kpg.connect()
    database.sql("CREATE TABLE t (a int)")
    error = refusal(database, statement)
    assert error.message.endswith("RULE is not supported")
    assert (error.hint, sqlstate_of(error)) == (unsupported_features.SYNTAX["RULE"], "0A000")


def test_actions_of_alter_table_are_refused() -> None:
    database = kpg.connect()
    database.sql("CREATE TABLE t (a int)")
    for statement, message in (
        ("ALTER TABLE t ADD CONSTRAINT x EXCLUDE (a WITH =)", "EXCLUDE is not supported"),
        ("ALTER TABLE t NO INHERIT u", "NO INHERIT is not supported"),
    ):
        assert refusal(database, statement).message == message


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TRIGGER a ON t RENAME TO b", "ALTER TRIGGER is not supported"),
        ("DROP TRIGGER a ON t", "DROP TRIGGER is not supported"),
        ("COMMENT ON TRIGGER a ON t IS 'x'", "COMMENT ON TRIGGER is not supported"),
        ("ALTER TABLE t DISABLE TRIGGER ALL", "ALTER TABLE ... DISABLE TRIGGER is not supported"),
        ("CREATE FUNCTION f() RETURNS trigger AS '' LANGUAGE plpgsql", "RETURNS TRIGGER is not supported"),
        ("DROP PROCEDURE p(int)", "DROP PROCEDURE is not supported"),
        ("ALTER PROCEDURE p() RENAME TO q", "ALTER PROCEDURE is not supported"),
    ],
)
def test_statements_about_a_refused_object_are_refused(statement: str, message: str) -> None:
    name = "TRIGGER" if "trigger" in statement.lower() else "PROCEDURE"
    assert_refused(kpg.connect(), statement, message, unsupported_features.SYNTAX[name])


def test_catalogs_have_no_triggers() -> None:
    database = kpg.connect()
    database.sql("CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES t)")
    for relation in ("pg_trigger", "pg_event_trigger", "information_schema.triggers"):
        assert database.sql(f"SELECT * FROM {relation}").fetchall() == []
    assert database.sql("SELECT pg_get_triggerdef(oid) FROM pg_class WHERE relname = 't'").fetchall() == [
        (None,)
    ]
