"""Alembic against a served database: what it finds, makes, changes and takes back."""

import io
import sys
import tempfile
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.dialects import postgresql

ENVIRONMENT = """
from alembic import context
from sqlalchemy import create_engine

with create_engine(context.config.get_main_option("sqlalchemy.url")).connect() as connection:
    context.configure(connection=connection, target_metadata=context.config.attributes["metadata"],
        compare_type=True, compare_server_default=True, include_schemas=True)
    with context.begin_transaction():
        context.run_migrations()
"""
TEMPLATE = """
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
${imports if imports else ""}
def upgrade():
    ${upgrades if upgrades else "pass"}
def downgrade():
    ${downgrades if downgrades else "pass"}
"""


def first() -> sa.MetaData:
    """What the first version has."""
    tables = sa.MetaData()
    sa.Table(
        "owner",
        tables,
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("name", sa.String(40), nullable=False, unique=True),
        sa.Column("born", sa.Date),
        sa.Column("mood", sa.Enum("sad", "ok", name="mood"), server_default="ok"),
        schema="shop",
    )
    sa.Table(
        "pet",
        tables,
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("owner", sa.ForeignKey("shop.owner.id", ondelete="CASCADE"), index=True),
        sa.Column("weight", sa.Numeric(10, 2), server_default=sa.text("0")),
        sa.Column("made", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.Column("tags", postgresql.ARRAY(sa.Text)),
        sa.Column("body", postgresql.JSONB),
        sa.Column("key", sa.Uuid),
        sa.Column("gone", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("size", sa.Integer),
        sa.Column("double", sa.Integer, sa.Computed("size * 2", persisted=True)),
        sa.CheckConstraint("weight >= 0", name="heavy"),
        sa.UniqueConstraint("owner", "made", name="once"),
        sa.Index("later", sa.text("made DESC"), "weight"),
        sa.Index("present", "made", postgresql_where=sa.text("NOT gone")),
        comment="what lives",
    )
    return tables


def second() -> sa.MetaData:
    """The same with columns and a table more, other types and other constraints."""
    tables = first()
    pet, owner = tables.tables["pet"], tables.tables["shop.owner"]
    pet.append_column(
        sa.Column("colour", sa.String(20), nullable=False, server_default="grey", comment="seen")
    )
    pet.append_column(sa.Column("name", sa.Text))
    pet.c.weight.type, pet.c.weight.nullable, pet.c.weight.server_default = sa.Numeric(12, 3), False, None
    pet.c.gone.server_default = sa.DefaultClause(sa.true())
    owner.c.name.type, owner.c.born.nullable = sa.String(80), False
    sa.Index("by_name", sa.func.lower(pet.c.name))
    pet.append_constraint(sa.UniqueConstraint("name", name="named"))
    sa.Table(
        "visit",
        tables,
        sa.Column("pet", sa.ForeignKey("pet.id", name="of_pet"), primary_key=True),
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("hour", sa.Time, sa.CheckConstraint("hour > '06:00'", name="early")),
        sa.Column("pause", sa.Interval),
    )
    return tables


def main(address: str) -> None:
    """Upgrades step by step, comparing after each; then downgrades."""
    folder = Path(tempfile.mkdtemp())
    (folder / "versions").mkdir()
    (folder / "env.py").write_text(ENVIRONMENT)
    (folder / "script.py.mako").write_text(TEMPLATE)
    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(folder))
    config.set_main_option("sqlalchemy.url", address)
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE SCHEMA shop"))
    for number, metadata in enumerate((first(), second()), 1):
        config.attributes["metadata"] = metadata
        command.revision(config, f"step {number}", autogenerate=True, rev_id=str(number))
        command.upgrade(config, "head")
        print("step", number, *sorted(sa.inspect(engine).get_table_names()))
        print("  left:", differences(engine, metadata))
        with engine.begin() as connection:
            connection.execute(
                sa.text(f"INSERT INTO shop.owner (name, born) VALUES ('n{number}', '2020-01-01')")
            )
            connection.execute(sa.text(f"INSERT INTO pet (id, owner, weight) VALUES ({number}, {number}, 2)"))
    for target, metadata in (("1", first()), ("base", sa.MetaData())):
        command.downgrade(config, target)
        print("down to", target, *sorted(sa.inspect(engine).get_table_names()))
        print("  left:", [one for one in differences(engine, metadata) if "alembic_version" not in str(one)])


def differences(engine: sa.Engine, metadata: sa.MetaData) -> list[object]:
    """What alembic would change."""
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True, "include_schemas": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)


main(*sys.argv[1:])
