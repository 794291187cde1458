"""Dispatch of DDL statements by their first words.

CREATE TYPE, CREATE SCHEMA, DROP, TRUNCATE and COMMENT are parsed here.
"""

from typing import Final

from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import roles, routines, schema_objects, statements
from kpg.compiler.sql.parse.reader import Reader
from kpg.compiler.sql.parse.statements import Utility
from kpg.compiler.sql.parse.tables import parse_alter_sequence, parse_modifiers
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.types import Kind, Type
from kpg.runtime.unsupported_features import SYNTAX, unsupported_syntax_error

UNSUPPORTED_KINDS: Final = {
    "FOREIGN": "a foreign table",
    "OPERATOR": "a user-defined operator",
    "DATABASE": "a database",
    "TABLESPACE": "a tablespace",
    "CAST": "a user-defined cast",
    "COLLATION": "a collation",
    "LANGUAGE": "a language",
    "PUBLICATION": "a publication",
    "SUBSCRIPTION": "a subscription",
    "SERVER": "a foreign server",
    "CONVERSION": "a conversion",
    "TRANSFORM": "a transform",
    "ACCESS METHOD": "an access method",
}
NONEXISTENT_KINDS: Final = {
    "EVENT TRIGGER": "event trigger",
    "FOREIGN TABLE": "foreign table",
    "FOREIGN DATA WRAPPER": "foreign-data wrapper",
    "SERVER": "server",
    "DATABASE": "database",
    "TABLESPACE": "tablespace",
    "LANGUAGE": "language",
    "PUBLICATION": "publication",
    "SUBSCRIPTION": "subscription",
}
"""Kinds of objects that cannot exist, with their names in notices.

DROP IF EXISTS of one has no effect.
"""
BUILT_IN: Final = frozenset((DATABASE, "pg_default", "pg_global", "plpgsql", "sql", "c", "internal"))
"""Names of built-in objects of these kinds."""
IGNORED_KINDS: Final = ("USER MAPPING", "STATISTICS")
"""Kinds of objects whose definitions are accepted and have no effect."""
ROLE_KEYWORDS: Final = ("ROLE", "USER", "GROUP")
OWNABLE_KINDS: Final = (
    "MATERIALIZED VIEW",
    "TABLE",
    "VIEW",
    "SEQUENCE",
    "SCHEMA",
    "TYPE",
    "DOMAIN",
    "FUNCTION",
    "ROUTINE",
    "DATABASE",
    "INDEX",
)
"""Kinds of objects with an owner."""
DROPPABLE_KINDS: Final = (
    "MATERIALIZED VIEW",
    "TABLE",
    "VIEW",
    "INDEX",
    "SEQUENCE",
    "SCHEMA",
    "TYPE",
    "DOMAIN",
)
EXTENSIONS: Final = ("plpgsql", "pgcrypto", "uuid-ossp", "btree_gist", "btree_gin", "pg_stat_statements")
"""Extensions that can be created; their functions are built in, or refused where they are called."""
EXTENSION_HINTS: Final = {
    "citext": "compare lower(a), and make an index on lower(a) UNIQUE",
    "hstore": "use jsonb",
    "pg_trgm": "use LIKE, ILIKE or a regular expression",
}
"""Alternatives to extensions that kpg lacks."""
UNCHECKED_COMMENT_KINDS: Final = ("ROLE", "EXTENSION", "COLLATION", "TABLESPACE", "LANGUAGE", "STATISTICS")
"""Kinds whose comments are stored without a check that the object exists."""
COMMENT_KINDS: Final = (
    *UNCHECKED_COMMENT_KINDS,
    "MATERIALIZED VIEW",
    "TABLE",
    "VIEW",
    "INDEX",
    "SEQUENCE",
    "SCHEMA",
    "DATABASE",
    "TYPE",
    "DOMAIN",
    "FUNCTION",
    "ROUTINE",
    "AGGREGATE",
)


def parse_ddl(word: str, reader: Reader) -> statements.Statement | None:
    """Parse a statement that begins with one of ``parser.DDL_KEYWORDS``; None if sqlglot parses it."""
    match word:
        case "create":
            return parse_create(reader)
        case "alter":
            return parse_alter(reader)
        case "drop":
            return parse_drop(reader)
        case "truncate":
            return parse_truncate(reader)
        case _:
            return parse_comment(reader)


def parse_create(reader: Reader) -> statements.Statement | None:
    """Parse a CREATE of anything but a table, a view or a sequence; None if sqlglot parses it."""
    or_replace = "REPLACE" in parse_modifiers(reader)
    if reader.accept("EGO", "VIEW"):
        return schema_objects.parse_create_ego_view(reader, or_replace=or_replace)
    if reader.at("UNIQUE") or reader.at("INDEX"):
        unique = reader.accept("UNIQUE")
        reader.expect("INDEX")
        return schema_objects.parse_create_index(reader, unique=unique)
    if reader.accept("SCHEMA"):
        return _parse_create_schema(reader)
    if reader.accept("TYPE"):
        return _parse_create_type(reader)
    if reader.accept("DOMAIN"):
        return schema_objects.parse_create_domain(reader)
    return _parse_create_routine(reader, or_replace=or_replace) or _parse_other(reader, "CREATE")


def _parse_create_routine(reader: Reader, *, or_replace: bool) -> statements.Statement | None:
    """Parse CREATE FUNCTION, AGGREGATE or POLICY; None for any other CREATE."""
    if reader.accept("FUNCTION"):
        return routines.parse_create_function(reader, or_replace=or_replace)
    if reader.accept("AGGREGATE"):
        return routines.parse_create_aggregate(reader, or_replace=or_replace)
    if reader.accept("POLICY"):
        return roles.parse_create_policy(reader)
    return None


def _parse_other(reader: Reader, verb: str) -> statements.Statement | None:
    """Parse a statement about roles, extensions or ignored kinds, and refuse unsupported kinds.

    None if sqlglot parses it.
    """
    for words in IGNORED_KINDS:
        if reader.accept(*words.split()):
            reader.skip(len(reader.rest()))
            return Utility(f"{verb} {words}", (), reader.span)
    word = next((one for one in ROLE_KEYWORDS if reader.accept(one)), "")
    if word:
        match verb:
            case "CREATE":
                return roles.parse_create_role(reader, word)
            case "ALTER":
                return roles.parse_alter_role(reader, word)
            case _:
                return roles.parse_drop_role(reader)
    if reader.accept("EXTENSION"):
        return _parse_extension(reader, verb)
    absent = _parse_drop_nonexistent(reader) if verb == "DROP" else None
    if absent is not None:
        return absent
    _refuse_unsupported(reader, verb)
    for words, construct in UNSUPPORTED_KINDS.items():
        if reader.at(*words.split()):
            reader.refuse(f"{verb} of {construct}" if verb != "CREATE" else construct)
    return None


def _parse_drop_nonexistent(reader: Reader) -> Utility | None:
    """Parse DROP IF EXISTS of objects that cannot exist; None otherwise, at the same position."""
    start = reader.position
    kind = next((one for one in NONEXISTENT_KINDS if reader.accept(*one.split())), "")
    if kind and reader.accept("IF", "EXISTS"):
        names = reader.relations()
        if not reader.accept("CASCADE"):
            reader.accept("RESTRICT")
        if reader.at_end and not BUILT_IN.intersection(names):
            messages = (
                f'{NONEXISTENT_KINDS[kind]} "{name.rpartition(".")[2]}" does not exist' for name in names
            )
            return Utility(
                f"DROP {kind}", (), reader.span, notices=tuple((fact, "00000") for fact in messages)
            )
    reader.skip(start - reader.position)
    return None


def _refuse_unsupported(reader: Reader, verb: str) -> None:
    """Raise NotSupportedError if an unsupported kind of object comes next."""
    for words in SYNTAX:
        if reader.at(*words.split()):
            raise unsupported_syntax_error(words, reader.here(), verb=verb)


def _parse_extension(reader: Reader, verb: str) -> statements.Statement:
    """Parse CREATE, ALTER or DROP EXTENSION.

    Those that are built in have no effect, and users' extensions cannot be altered.
    """
    has_if_exists = (
        reader.accept("IF", "NOT", "EXISTS") if verb == "CREATE" else reader.accept("IF", "EXISTS")
    )
    notices, names = [], []
    while True:
        place, name = reader.here(), reader.folded_name()
        if name not in EXTENSIONS:
            if verb == "ALTER" or (verb == "CREATE" and name in EXTENSION_HINTS):
                hint = EXTENSION_HINTS.get(name)
                raise NotSupportedError(f'extension "{name}" is not available', span=place, hint=hint)
            names.append(name)
        elif has_if_exists and verb == "CREATE" and name == "plpgsql":
            notices.append((f'extension "{name}" already exists', "42710"))
        if verb != "DROP" or not reader.accept(","):
            break
    if verb == "DROP":
        if not reader.accept("CASCADE"):
            reader.accept("RESTRICT")
    elif verb == "ALTER":
        reader.expect_one_of("UPDATE", "SET")
        if reader.accept("TO") and not reader.accept_string():
            reader.name()
        if reader.accept("SCHEMA"):
            reader.name()
    else:
        reader.accept("WITH")
        while not reader.at_end:
            option = reader.expect_one_of("SCHEMA", "VERSION", "CASCADE")
            if option != "CASCADE" and not (option == "VERSION" and reader.accept_string()):
                reader.name()
    reader.expect_end()
    if names:
        of_verb = ast.CreateExtension if verb == "CREATE" else ast.DropExtension
        return of_verb(tuple(names), has_if_exists, reader.span)
    return Utility(f"{verb} EXTENSION", (), reader.span, notices=tuple(notices))


def _parse_create_type(reader: Reader) -> ast.CreateType:
    name = reader.relation()
    if not reader.accept("AS"):
        reader.refuse("a type of this kind", "types are ENUMs and rows")
    if reader.accept("ENUM"):
        labels: list[str] = []
        reader.expect("(")
        while not reader.accept(")"):
            labels.append(reader.string())
            if not reader.accept(","):
                reader.expect(")")
                break
        reader.expect_end()
        return ast.CreateType(name, Type(Kind.ENUM, labels=tuple(labels), name=name), reader.span)
    if not reader.accept("("):
        reader.refuse("a type of this kind", "types are ENUMs and rows")
    names, types = [], []
    while True:
        names.append(reader.name())
        types.append(reader.type())
        if not reader.accept(","):
            break
    reader.expect(")")
    reader.expect_end()
    row_type = Type(Kind.RECORD, parts=tuple(types), labels=tuple(names), name=name)
    return ast.CreateType(name, row_type, reader.span)


def _parse_create_schema(reader: Reader) -> ast.CreateSchema:
    exists = reader.accept("IF", "NOT", "EXISTS")
    name, owner = "" if reader.at("AUTHORIZATION") else reader.name(), ""
    if reader.accept("AUTHORIZATION"):
        owner = roles.parse_role(reader)
        name = name or owner
    return ast.CreateSchema(name, exists, reader.span, owner, _parse_schema_elements(reader))


def _parse_schema_elements(reader: Reader) -> tuple[str, ...]:
    """Return the texts of the statements within CREATE SCHEMA."""
    if reader.at_end:
        return ()
    tokens = list(reader.rest())
    if tokens[0].text.upper() not in ("CREATE", "GRANT"):
        reader.fail_unexpected("CREATE or GRANT")
    starts, depth = list[int](), 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text.upper() in ("CREATE", "GRANT"):
            starts.append(token.start)
    reader.skip(len(tokens))
    ends = [*starts[1:], tokens[-1].end + 1]
    return tuple(reader.text[start:end] for start, end in zip(starts, ends, strict=True))


def parse_alter(reader: Reader) -> statements.Statement | None:
    """Parse an ALTER; None if sqlglot parses it."""
    reader.expect("ALTER")
    found = _parse_alter_owner(reader)
    if found is not None:
        return found
    if reader.accept("DEFAULT", "PRIVILEGES"):
        return roles.parse_alter_default_privileges(reader)
    if reader.accept("SEQUENCE"):
        return parse_alter_sequence(reader)
    for kind in ("MATERIALIZED VIEW", "TABLE", "VIEW", "INDEX"):
        if reader.accept(*kind.split()):
            return schema_objects.parse_alter_relation(reader, kind)
    if reader.accept("SCHEMA"):
        return schema_objects.parse_rename_schema(reader)
    if reader.accept("DOMAIN"):
        return schema_objects.parse_alter_domain(reader)
    if reader.accept("TYPE"):
        return schema_objects.parse_alter_type(reader)
    if reader.accept("FUNCTION") or reader.accept("ROUTINE"):
        return routines.parse_alter_function(reader)
    if reader.accept("POLICY"):
        return roles.parse_alter_policy(reader)
    return _parse_other(reader, "ALTER")


def _parse_alter_owner(reader: Reader) -> statements.Statement | None:
    """Parse ALTER ... OWNER TO; None for any other ALTER, at the same position."""
    if not any(token.text.upper() == "OWNER" for token in reader.rest()):
        return None
    for kind in OWNABLE_KINDS:
        start = reader.position
        if reader.accept(*kind.split()):
            found = roles.parse_owner_to(reader, kind)
            if found is not None:
                return found
            reader.skip(start - reader.position)
    return None


def parse_drop(reader: Reader) -> statements.Statement | None:
    """Parse a DROP; None if sqlglot parses it."""
    reader.expect("DROP")
    if reader.accept("OWNED", "BY"):
        return roles.parse_owned_by(reader, "DROP")
    return _parse_drop_routine(reader) or _parse_other(reader, "DROP") or _parse_drop_objects(reader)


def _parse_drop_routine(reader: Reader) -> statements.Statement | None:
    """Parse DROP FUNCTION, AGGREGATE or POLICY; None for any other DROP."""
    word = next((one for one in ("FUNCTION", "ROUTINE") if reader.accept(one)), "")
    if word:
        return routines.parse_drop_function(reader, word.lower())
    if reader.accept("AGGREGATE"):
        return routines.parse_drop_aggregate(reader)
    if reader.accept("POLICY"):
        return roles.parse_drop_policy(reader)
    return None


def _parse_drop_objects(reader: Reader) -> statements.Statement | None:
    """Parse DROP of relations, types and schemas; None for any other DROP."""
    kind = next((one for one in DROPPABLE_KINDS if reader.accept(*one.split())), "")
    if not kind:
        return None
    if reader.accept("CONCURRENTLY"):
        pass
    exists = reader.accept("IF", "EXISTS")
    names = reader.relations()
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.expect_end()
    if kind in ("TABLE", "VIEW", "MATERIALIZED VIEW"):
        materialized, plain = kind.startswith("MATERIALIZED"), kind.rpartition(" ")[2]
        return statements.Drop(plain, names, exists, cascade, reader.span, materialized)
    return ast.DropOther(kind, names, exists, cascade, reader.span)


def parse_truncate(reader: Reader) -> ast.Truncate:
    """Parse a TRUNCATE."""
    reader.expect("TRUNCATE")
    reader.accept("TABLE")
    names = []
    while True:
        reader.accept("ONLY")
        names.append(reader.relation())
        reader.accept("*")
        if not reader.accept(","):
            break
    restart = reader.accept("RESTART", "IDENTITY")
    reader.accept("CONTINUE", "IDENTITY")
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.expect_end()
    return ast.Truncate(tuple(names), restart, cascade, reader.span)


def parse_comment(reader: Reader) -> ast.Comment:
    """Parse a COMMENT ON."""
    reader.expect("COMMENT")
    reader.expect("ON")
    _refuse_unsupported(reader, "COMMENT ON")
    if reader.accept("COLUMN"):
        parts = [reader.name()]
        while reader.accept("."):
            parts.append(reader.name())
        if len(parts) < 2:
            reader.fail_unexpected("a relation and a column")
        name, part, kind = ".".join(parts[:-1]), parts[-1], "COLUMN"
        name = name.removeprefix("public.")
    elif (word := next((one for one in ("CONSTRAINT", "POLICY") if reader.accept(one)), "")) != "":
        part, kind = reader.name(), word
        reader.expect("ON")
        kind = "DOMAIN CONSTRAINT" if kind == "CONSTRAINT" and reader.accept("DOMAIN") else kind
        name = reader.relation()
    else:
        kind, part = reader.expect_one_of(*COMMENT_KINDS), ""
        name = reader.relation()
        if reader.at("("):
            reader.skip_parentheses()
    reader.expect("IS")
    text = None if reader.accept("NULL") else reader.string()
    reader.expect_end()
    return ast.Comment(kind, name, part, text, reader.span)
