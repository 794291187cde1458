"""CREATE and DROP: syntax trees to statements, and SQL's type names to types."""

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.syntax import construct_name, only, refuse, wrong
from kpg.compiler.sql.tokens import tokenize
from kpg.compiler.sql.type_names import sql_type
from kpg.runtime.errors import Span
from kpg.runtime.types import ColumnDef, Schema


def create(tree: exp.Create, source: str, span: Span) -> ast.CreateTable | ast.CreateTableAs | ast.CreateView:
    """CREATE TABLE, CREATE TABLE AS or CREATE [MATERIALIZED] VIEW."""
    only(tree, source, "this", "kind", "replace", "exists", "expression", "properties")
    materialized = False
    properties = tree.args.get("properties")
    for part in properties.expressions if properties is not None else ():
        if not isinstance(part, exp.MaterializedProperty):
            refuse(f"CREATE with {construct_name(part)}", part, source)
        materialized = True
    query = tree.args.get("expression")
    if tree.kind == "VIEW" and query is not None:
        name, columns = _view_name(tree.this, source)
        exists, replace = bool(tree.args.get("exists")), bool(tree.args.get("replace"))
        return ast.CreateView(name, columns, _whole(query, span), materialized, replace, exists, span)
    if tree.kind == "VIEW":
        wrong(f"CREATE VIEW {tree.this.name} needs AS and a query", tree, source)
    if tree.kind != "TABLE" or materialized:
        refuse(f"CREATE {tree.kind}", tree, source)
    if tree.args.get("replace"):
        refuse("CREATE OR REPLACE TABLE", tree, source)
    if query is not None:
        name, columns = _view_name(tree.this, source)
        return ast.CreateTableAs(name, columns, _whole(query, span), bool(tree.args.get("exists")), span)
    return _create_table(tree, source, span)


def _whole(query: exp.Expr, span: Span) -> ast.Select:
    """The query of a CREATE with its text: all that follows the first AS."""
    tokens = tokenize(span.source[span.start : span.end])
    places = (index for index, token in enumerate(tokens[:-1]) if token.token_type is TokenType.ALIAS)
    place = next(places, None)
    if place is None:
        wrong("a query in CREATE comes after AS", query, span.source)
    return ast.Select(query, Span(span.source, span.start + tokens[place + 1].start, span.end))


def _view_name(target: exp.Expr, source: str) -> tuple[str, tuple[str, ...]]:
    columns: tuple[str, ...] = ()
    if isinstance(target, exp.Schema):
        only(target, source, "this", "expressions")
        for column in target.expressions:
            if not isinstance(column, exp.Identifier):
                refuse(construct_name(column), column, source)
        columns = tuple(column.name for column in target.expressions)
        target = target.this
    only(target, source, "this")
    return target.name, columns


def _create_table(tree: exp.Create, source: str, span: Span) -> ast.CreateTable:
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        wrong("CREATE TABLE needs a list of columns", tree, source)
    only(schema, source, "this", "expressions")
    only(schema.this, source, "this")
    columns: dict[str, ColumnDef] = {}
    primary: list[str] = []
    for part in schema.expressions:
        match part:
            case exp.ColumnDef():
                column, is_key = _column(part, source)
                if column.name.lower() in columns:
                    wrong(f'column "{column.name}" is defined twice', part, source)
                columns[column.name.lower()] = column
                keys = [column.name] if is_key else []
            case exp.PrimaryKey():
                keys = [_key_column(name, source) for name in part.expressions]
            case _:
                refuse(construct_name(part), part, source)
        if keys and primary:
            wrong("a table has one primary key only", part, source)
        primary += keys
    positions = tuple(_position(name, list(columns), schema, source) for name in primary)
    listed = tuple(
        ColumnDef(column.name, column.type, column.nullable and index not in positions)
        for index, column in enumerate(columns.values())
    )
    return ast.CreateTable(schema.this.name, Schema(listed, positions), bool(tree.args.get("exists")), span)


def _position(name: str, columns: list[str], node: exp.Expr, source: str) -> int:
    if name.lower() not in columns:
        wrong(f'primary key column "{name}" does not exist', node, source)
    return columns.index(name.lower())


def _key_column(node: exp.Expr, source: str) -> str:
    inner = node.this if isinstance(node, exp.Ordered) else node
    inner = inner.this if isinstance(inner, exp.Column) else inner
    if not isinstance(inner, exp.Identifier):
        refuse("PRIMARY KEY over an expression", node, source)
    return inner.name


def _column(node: exp.ColumnDef, source: str) -> tuple[ColumnDef, bool]:
    only(node, source, "this", "kind", "constraints")
    if node.args.get("kind") is None:
        wrong(f'column "{node.name}" has no type', node, source)
    nullable, is_key = True, False
    for constraint in node.args.get("constraints") or ():
        match constraint.args.get("kind"):
            case exp.NotNullColumnConstraint(args=args):
                nullable = bool(args.get("allow_null"))
            case exp.PrimaryKeyColumnConstraint():
                is_key = True
            case other:
                refuse(construct_name(other).replace(" COLUMN CONSTRAINT", ""), constraint, source)
    return ColumnDef(node.name, sql_type(node.args["kind"], source), nullable), is_key


def drop(tree: exp.Drop, source: str, span: Span) -> ast.Drop:
    """DROP TABLE or DROP [MATERIALIZED] VIEW."""
    only(tree, source, "this", "tables", "exists", "kind", "materialized", "cascade", "restrict")
    if tree.args.get("kind") not in ("TABLE", "VIEW"):
        refuse(f"DROP {tree.args.get('kind')}", tree, source)
    targets = tree.args.get("tables") or [tree.this]
    for target in targets:
        only(target, source, "this")
    names = tuple(target.name for target in targets)
    return ast.Drop(
        tree.args["kind"], names, bool(tree.args.get("exists")), bool(tree.args.get("cascade")), span
    )
