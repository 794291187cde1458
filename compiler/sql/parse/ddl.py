"""Dispatch of DDL statements by their first words.

CREATE TYPE, CREATE SCHEMA, DROP, TRUNCATE and COMMENT are read here.
"""

from typing import Final

from kpg.compiler.qualified_names import DATABASE
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.parse import roles, routines, schema_objects, statements
from kpg.compiler.sql.parse.reader import Reader
from kpg.compiler.sql.parse.statements import Accepted
from kpg.compiler.sql.parse.tables import alter_sequence, modifiers
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.types import Kind, Type
from kpg.runtime.unsupported_features import SYNTAX, unsupported_syntax

REFUSED: Final = {
    "FOREIGN": "a foreign table",
    "OPERATOR": "an operator of the user's",
    "DATABASE": "a database",
    "TABLESPACE": "a tablespace",
    "CAST": "a cast of the user's",
    "COLLATION": "a collation",
    "LANGUAGE": "a language",
    "PUBLICATION": "a publication",
    "SUBSCRIPTION": "a subscription",
    "SERVER": "a foreign server",
    "CONVERSION": "a conversion",
    "TRANSFORM": "a transform",
    "ACCESS METHOD": "an access method",
}
ABSENT: Final = {
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
"""Kinds of what cannot be made, so that DROP IF EXISTS has nothing to do, with their names in notices."""
BUILT_IN: Final = frozenset((DATABASE, "pg_default", "pg_global", "plpgsql", "sql", "c", "internal"))
"""Names of what exists without having been made."""
NOTHING: Final = ("USER MAPPING", "STATISTICS")
"""What may be made, altered and dropped, and changes nothing."""
ROLES: Final = ("ROLE", "USER", "GROUP")
OWNED: Final = (
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
"""What has an owner."""
KINDS: Final = ("MATERIALIZED VIEW", "TABLE", "VIEW", "INDEX", "SEQUENCE", "SCHEMA", "TYPE", "DOMAIN")
EXTENSIONS: Final = ("plpgsql", "pgcrypto", "uuid-ossp", "btree_gist", "btree_gin", "pg_stat_statements")
"""Those that may be asked for: what they have is here anyhow, or is refused where it is called."""
INSTEAD: Final = {
    "citext": "compare lower(a), and make an index on lower(a) UNIQUE",
    "hstore": "use jsonb",
    "pg_trgm": "use LIKE, ILIKE or a regular expression",
}
"""What does the work of extensions that are not there."""
NAMED: Final = ("ROLE", "EXTENSION", "COLLATION", "TABLESPACE", "LANGUAGE", "STATISTICS")
"""What may be commented on, and the comment is kept without a look at what it is about."""
COMMENTED: Final = (
    *NAMED,
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


def read(word: str, reader: Reader) -> statements.Statement | None:
    """A statement that begins with one of ``parser.DEFINING``; None if it is read elsewhere."""
    match word:
        case "create":
            return create(reader)
        case "alter":
            return alter_any(reader)
        case "drop":
            return drop(reader)
        case "truncate":
            return truncate(reader)
        case _:
            return comment(reader)


def create(reader: Reader) -> statements.Statement | None:
    """A CREATE of anything but a table, a view or a sequence; None if it is read elsewhere."""
    or_replace = "REPLACE" in modifiers(reader)
    if reader.take("EGO", "VIEW"):
        return schema_objects.create_ego_view(reader, or_replace=or_replace)
    if reader.at("UNIQUE") or reader.at("INDEX"):
        unique = reader.take("UNIQUE")
        reader.need("INDEX")
        return schema_objects.create_index(reader, unique=unique)
    if reader.take("SCHEMA"):
        return _create_schema(reader)
    if reader.take("TYPE"):
        return _create_type(reader)
    if reader.take("DOMAIN"):
        return schema_objects.create_domain(reader)
    return _create_code(reader, or_replace=or_replace) or _refuse(reader, "CREATE")


def _create_code(reader: Reader, *, or_replace: bool) -> statements.Statement | None:
    """What has a body: a function, an aggregate, a policy."""
    if reader.take("FUNCTION"):
        return routines.create_function(reader, or_replace=or_replace)
    if reader.take("AGGREGATE"):
        return routines.create_aggregate(reader, or_replace=or_replace)
    if reader.take("POLICY"):
        return roles.create_policy(reader)
    return None


def _refuse(reader: Reader, verb: str) -> statements.Statement | None:
    """Refuse by name what is not supported; what has nothing to do is taken, and what is about roles read."""
    for words in NOTHING:
        if reader.take(*words.split()):
            reader.skip(len(reader.rest()))
            return Accepted(f"{verb} {words}", (), reader.span)
    word = next((one for one in ROLES if reader.take(one)), "")
    if word:
        match verb:
            case "CREATE":
                return roles.create(reader, word)
            case "ALTER":
                return roles.alter(reader, word)
            case _:
                return roles.drop(reader)
    if reader.take("EXTENSION"):
        return _extension(reader, verb)
    absent = _absent(reader) if verb == "DROP" else None
    if absent is not None:
        return absent
    _refuse_unsupported(reader, verb)
    for words, construct in REFUSED.items():
        if reader.at(*words.split()):
            reader.refuse(f"{verb} of {construct}" if verb != "CREATE" else construct)
    return None


def _absent(reader: Reader) -> Accepted | None:
    """DROP IF EXISTS of what no user can make, so that it never exists; None, and nothing taken, else."""
    start = reader.place
    kind = next((one for one in ABSENT if reader.take(*one.split())), "")
    if kind and reader.take("IF", "EXISTS"):
        names = reader.relations()
        if not reader.take("CASCADE"):
            reader.take("RESTRICT")
        if reader.done and not BUILT_IN.intersection(names):
            facts = (f'{ABSENT[kind]} "{name.rpartition(".")[2]}" does not exist' for name in names)
            return Accepted(f"DROP {kind}", (), reader.span, skipped=tuple((fact, "00000") for fact in facts))
    reader.skip(start - reader.place)
    return None


def _refuse_unsupported(reader: Reader, verb: str) -> None:
    """NotSupportedError if an object follows of a kind that there is not."""
    for words in SYNTAX:
        if reader.at(*words.split()):
            raise unsupported_syntax(words, reader.here(), verb=verb)


def _extension(reader: Reader, verb: str) -> Accepted:
    """CREATE, ALTER or DROP of an extension whose functions are there anyhow."""
    lenient = reader.take("IF", "NOT", "EXISTS") if verb == "CREATE" else reader.take("IF", "EXISTS")
    skipped = []
    while True:
        place, name = reader.here(), reader.folded()
        if name not in EXTENSIONS and not (lenient and verb == "DROP"):
            hint = INSTEAD.get(name, f"those that are there: {', '.join(sorted(EXTENSIONS))}")
            raise NotSupportedError(f'extension "{name}" is not available', span=place, hint=hint)
        if name not in EXTENSIONS:
            skipped.append((f'extension "{name}" does not exist', "00000"))
        elif lenient and verb == "CREATE" and name == "plpgsql":
            skipped.append((f'extension "{name}" already exists', "42710"))
        if verb != "DROP" or not reader.take(","):
            break
    if verb == "DROP":
        if not reader.take("CASCADE"):
            reader.take("RESTRICT")
    elif verb == "ALTER":
        reader.choice("UPDATE", "SET")
        if reader.take("TO") and not reader.take_text():
            reader.name()
        if reader.take("SCHEMA"):
            reader.name()
    else:
        reader.take("WITH")
        while not reader.done:
            option = reader.choice("SCHEMA", "VERSION", "CASCADE")
            if option != "CASCADE" and not (option == "VERSION" and reader.take_text()):
                reader.name()
    reader.end()
    return Accepted(f"{verb} EXTENSION", (), reader.span, skipped=tuple(skipped))


def _create_type(reader: Reader) -> ast.CreateType:
    name = reader.relation()
    if not reader.take("AS"):
        reader.refuse("a type of this kind", "types are ENUMs and rows")
    if reader.take("ENUM"):
        labels: list[str] = []
        reader.need("(")
        while not reader.take(")"):
            labels.append(reader.string())
            if not reader.take(","):
                reader.need(")")
                break
        reader.end()
        return ast.CreateType(name, Type(Kind.ENUM, labels=tuple(labels), name=name), reader.span)
    if not reader.take("("):
        reader.refuse("a type of this kind", "types are ENUMs and rows")
    names, types = [], []
    while True:
        names.append(reader.name())
        types.append(reader.type())
        if not reader.take(","):
            break
    reader.need(")")
    reader.end()
    made = Type(Kind.RECORD, parts=tuple(types), labels=tuple(names), name=name)
    return ast.CreateType(name, made, reader.span)


def _create_schema(reader: Reader) -> ast.CreateSchema:
    exists = reader.take("IF", "NOT", "EXISTS")
    name, owner = "" if reader.at("AUTHORIZATION") else reader.name(), ""
    if reader.take("AUTHORIZATION"):
        owner = roles.role(reader)
        name = name or owner
    return ast.CreateSchema(name, exists, reader.span, owner, _elements(reader))


def _elements(reader: Reader) -> tuple[str, ...]:
    """The statements within CREATE SCHEMA, as texts."""
    if reader.done:
        return ()
    tokens = list(reader.rest())
    if tokens[0].text.upper() not in ("CREATE", "GRANT"):
        reader.unexpected("CREATE or GRANT")
    starts, depth = list[int](), 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text.upper() in ("CREATE", "GRANT"):
            starts.append(token.start)
    reader.skip(len(tokens))
    ends = [*starts[1:], tokens[-1].end + 1]
    return tuple(reader.text[start:end] for start, end in zip(starts, ends, strict=True))


def alter_any(reader: Reader) -> statements.Statement | None:
    """An ALTER; None if it is read elsewhere."""
    reader.need("ALTER")
    found = _owned(reader)
    if found is not None:
        return found
    if reader.take("DEFAULT", "PRIVILEGES"):
        return roles.defaults(reader)
    if reader.take("SEQUENCE"):
        return alter_sequence(reader)
    for kind in ("MATERIALIZED VIEW", "TABLE", "VIEW", "INDEX"):
        if reader.take(*kind.split()):
            return schema_objects.alter(reader, kind)
    if reader.take("SCHEMA"):
        return schema_objects.rename_schema(reader)
    if reader.take("DOMAIN"):
        return schema_objects.alter_domain(reader)
    if reader.take("TYPE"):
        return schema_objects.alter_type(reader)
    if reader.take("FUNCTION") or reader.take("ROUTINE"):
        return routines.alter_function(reader)
    if reader.take("POLICY"):
        return roles.alter_policy(reader)
    return _refuse(reader, "ALTER")


def _owned(reader: Reader) -> statements.Statement | None:
    """ALTER of who owns something; None, and nothing taken, for another ALTER."""
    if not any(token.text.upper() == "OWNER" for token in reader.rest()):
        return None
    for kind in OWNED:
        start = reader.place
        if reader.take(*kind.split()):
            found = roles.owner(reader, kind)
            if found is not None:
                return found
            reader.skip(start - reader.place)
    return None


def drop(reader: Reader) -> statements.Statement | None:
    """A DROP; None if it is read elsewhere."""
    reader.need("DROP")
    if reader.take("OWNED", "BY"):
        return roles.owned(reader, "DROP")
    return _drop_code(reader) or _refuse(reader, "DROP") or _drop_named(reader)


def _drop_code(reader: Reader) -> statements.Statement | None:
    """DROP of what has a body, or a condition."""
    word = next((one for one in ("FUNCTION", "ROUTINE") if reader.take(one)), "")
    if word:
        return routines.drop_function(reader, word.lower())
    if reader.take("AGGREGATE"):
        return routines.drop_aggregate(reader)
    if reader.take("POLICY"):
        return roles.drop_policy(reader)
    return None


def _drop_named(reader: Reader) -> statements.Statement | None:
    """DROP of relations, types and schemas; None if it is read elsewhere."""
    kind = next((one for one in KINDS if reader.take(*one.split())), "")
    if not kind:
        return None
    if reader.take("CONCURRENTLY"):
        pass
    exists = reader.take("IF", "EXISTS")
    names = reader.relations()
    cascade = reader.take("CASCADE")
    if not cascade:
        reader.take("RESTRICT")
    reader.end()
    if kind in ("TABLE", "VIEW", "MATERIALIZED VIEW"):
        materialized, plain = kind.startswith("MATERIALIZED"), kind.rpartition(" ")[2]
        return statements.Drop(plain, names, exists, cascade, reader.span, materialized)
    return ast.DropOther(kind, names, exists, cascade, reader.span)


def truncate(reader: Reader) -> ast.Truncate:
    """A TRUNCATE."""
    reader.need("TRUNCATE")
    reader.take("TABLE")
    names = []
    while True:
        reader.take("ONLY")
        names.append(reader.relation())
        reader.take("*")
        if not reader.take(","):
            break
    restart = reader.take("RESTART", "IDENTITY")
    reader.take("CONTINUE", "IDENTITY")
    cascade = reader.take("CASCADE")
    if not cascade:
        reader.take("RESTRICT")
    reader.end()
    return ast.Truncate(tuple(names), restart, cascade, reader.span)


def comment(reader: Reader) -> ast.Comment:
    """A COMMENT ON."""
    reader.need("COMMENT")
    reader.need("ON")
    _refuse_unsupported(reader, "COMMENT ON")
    if reader.take("COLUMN"):
        parts = [reader.name()]
        while reader.take("."):
            parts.append(reader.name())
        if len(parts) < 2:
            reader.unexpected("a relation and a column")
        name, part, kind = ".".join(parts[:-1]), parts[-1], "COLUMN"
        name = name.removeprefix("public.")
    elif (word := next((one for one in ("CONSTRAINT", "POLICY") if reader.take(one)), "")) != "":
        part, kind = reader.name(), word
        reader.need("ON")
        kind = "DOMAIN CONSTRAINT" if kind == "CONSTRAINT" and reader.take("DOMAIN") else kind
        name = reader.relation()
    else:
        kind, part = reader.choice(*COMMENTED), ""
        name = reader.relation()
        if reader.at("("):
            reader.skip_enclosed()
    reader.need("IS")
    text = None if reader.take("NULL") else reader.string()
    reader.end()
    return ast.Comment(kind, name, part, text, reader.span)
