"""CREATE EXTENSION and DROP EXTENSION of users' packages (``kpg.extensions``)."""

from collections.abc import Iterator

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.catalog.entries import EXTENSIONS, TYPES, ViewEntry
from kpg.compiler.sql.parse import definitions as ast
from kpg.compiler.sql.rewrite.name_qualification import calls_function, uses_type
from kpg.execute.definitions.callers import find_mentions
from kpg.runtime import extensions
from kpg.runtime.errors import NotSupportedError, ProgrammingError, Span
from kpg.runtime.types import Kind, Type
from kpg.session.engine import Engine
from kpg.session.notices import notice_skipped


def create_extension(engine: Engine, statement: ast.CreateExtension) -> None:
    """Run CREATE EXTENSION: add an installed extension and its types to the database."""
    catalog, (name,) = engine.catalog, statement.names
    if name in catalog.extensions:
        if not statement.if_not_exists:
            raise _error(f'extension "{name}" already exists', "42710", statement.span)
        notice_skipped(engine, f'extension "{name}" already exists', "42710")
        return
    extension = extensions.find(name)
    if extension is None:
        raise NotSupportedError(
            f'extension "{name}" is not available',
            span=statement.span.at(name),
            hint=f"those that are there: {', '.join(extensions.available_names()) or 'none'}",
        )
    for type_ in extension.types:
        if type_.name in catalog.types:
            raise _error(f'type "{type_.name}" already exists', "42710", statement.span)
    catalog.apply(
        *(TYPES.put(type_.name, type_) for type_ in extension.types), EXTENSIONS.put(name, extension.version)
    )


def drop_extension(engine: Engine, statement: ast.DropExtension) -> None:
    """Run DROP EXTENSION, which other objects must not use."""
    catalog = engine.catalog
    for name in statement.names:
        if name not in catalog.extensions:
            if not statement.if_exists:
                raise _error(f'extension "{name}" does not exist', "42704", statement.span)
            notice_skipped(engine, f'extension "{name}" does not exist')
            continue
        user = next(_users(engine, name, statement.span), None)
        if user is not None:
            raise _error(
                f'extension "{name}" cannot be dropped: {user} uses it',
                "2BP01",
                statement.span,
                "drop that first",
            )
        types = (key for key, one in catalog.types.items() if _is_of_extension(one, name))
        catalog.apply(*map(TYPES.remove, types), EXTENSIONS.remove(name))


def _is_of_extension(type_: Type | Domain, name: str) -> bool:
    """Whether a type, or the type of a domain or of an array's elements, is an extension's."""
    if isinstance(type_, Domain):
        return _is_of_extension(type_.type, name)
    if type_.kind is Kind.EXTENSION:
        return type_.labels == (name,)
    return any(_is_of_extension(part, name) for part in type_.parts)


def _users(engine: Engine, name: str, span: Span) -> Iterator[str]:
    """Yield the objects of the database that use an extension."""
    catalog, extension = engine.catalog, extensions.find(name)
    types = [one for one in catalog.types.values() if isinstance(one, Type) and _is_of_extension(one, name)]
    functions = extension.functions if extension is not None else frozenset()

    def mentions(text: str) -> bool:
        return any(uses_type(text, type_.name) for type_ in types) or any(
            calls_function(text, function) for function in functions
        )

    for entry in catalog:
        if any(_is_of_extension(column.type, name) for column in entry.schema.columns):
            yield f'"{entry.name}"'
        elif isinstance(entry, ViewEntry) and mentions(entry.text):
            yield f'view "{entry.name}"'
    for key, type_ in catalog.types.items():
        if (isinstance(type_, Domain) or type_ not in types) and _is_of_extension(type_, name):
            yield f'type "{key}"'
    for caller in find_mentions(engine, mentions, span):
        yield caller.description


def _error(message: str, state: str, span: Span, hint: str | None = None) -> ProgrammingError:
    error = ProgrammingError(message, span=span, hint=hint)
    error.sqlstate = state
    return error
