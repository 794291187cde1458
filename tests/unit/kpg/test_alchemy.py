"""SQLAlchemy over a database in this process: types, ORM, reflection, levels, folders."""

import datetime
import decimal
import enum
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

import kpg

registry.register("kpg", "kpg.alchemy", "Dialect")


class Base(DeclarativeBase):
    pass


class Color(enum.Enum):
    red = 1
    blue = 2


class Item(Base):
    __tablename__ = "item"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(20), unique=True)
    price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2))
    at: Mapped[datetime.datetime | None]
    zoned: Mapped[datetime.datetime | None] = mapped_column(sa.DateTime(timezone=True))
    day: Mapped[datetime.date | None]
    time: Mapped[datetime.time | None]
    span: Mapped[datetime.timedelta | None]
    code: Mapped[uuid.UUID] = mapped_column(default=uuid.uuid4)
    there: Mapped[bool] = mapped_column(default=True)
    weight: Mapped[float] = mapped_column(default=1.5)
    color: Mapped[Color] = mapped_column(default=Color.red)
    facts: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    numbers: Mapped[list[int]] = mapped_column(ARRAY(sa.Integer), default=list)
    data: Mapped[bytes] = mapped_column(default=b"")
    parts: Mapped[list["Part"]] = relationship(back_populates="item")


class Part(Base):
    __tablename__ = "part"
    id: Mapped[int] = mapped_column(primary_key=True)
    item_id: Mapped[int] = mapped_column(sa.ForeignKey("item.id"), index=True)
    amount: Mapped[int]
    item: Mapped[Item] = relationship(back_populates="parts")


VALUES: dict[str, Any] = {
    "name": "one",
    "price": decimal.Decimal("1.50"),
    "at": datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    "zoned": datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
    "day": datetime.date(2020, 1, 2),
    "time": datetime.time(1, 2, 3),
    "span": datetime.timedelta(days=-1, seconds=5, microseconds=7),
    "code": uuid.UUID(int=7),
    "there": False,
    "weight": 0.1,
    "color": Color.blue,
    "facts": {"a": [1, None, "x"]},
    "numbers": [3, 1, 2],
    "data": b"x\0\xff",
}


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    made = sa.create_engine("kpg://")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def test_rows_come_back_as_they_were_given(engine: sa.Engine) -> None:
    with Session(engine) as session:
        session.add(Item(**VALUES, parts=[Part(amount=1), Part(amount=2)]))
        session.commit()
    with Session(engine) as session:
        item = session.scalars(sa.select(Item).where(Item.code == VALUES["code"])).one()
        assert {name: getattr(item, name) for name in VALUES} == VALUES
        assert sorted(part.amount for part in item.parts) == [1, 2]


def test_what_an_orm_does(engine: sa.Engine) -> None:
    with Session(engine) as session:
        session.add_all(Item(name=f"n{n}", price=n, parts=[Part(amount=n)]) for n in range(5))
        session.commit()
        query = sa.select(Item.name, sa.func.sum(Part.amount)).join(Part).group_by(Item.name)
        assert session.execute(query.having(sa.func.sum(Part.amount) > 2).order_by(Item.name)).all() == [
            ("n3", 3),
            ("n4", 4),
        ]
        first = session.get_one(Item, 1)
        first.name = "changed"
        session.delete(first.parts[0])
        session.flush()
        session.rollback()
        assert session.get_one(Item, 1).name == "n0"
        row = {"id": 1, "name": "other", "price": 1, "code": uuid.uuid4()}
        again = insert(Item).values(row).on_conflict_do_update(index_elements=["id"], set_={"name": "up"})
        session.execute(again)
        session.commit()
        assert session.scalar(sa.select(Item.name).where(Item.id == 1)) == "up"
        with pytest.raises(sa.exc.IntegrityError):
            session.execute(sa.insert(Part).values(item_id=99, amount=1))
            session.commit()


@pytest.mark.filterwarnings("ignore:PostgreSQL format_type")  # of the column with an ENUM
def test_reflection(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("create view shown as select name from item"))
        connection.execute(sa.text("create materialized view kept as select count(*) as n from item"))
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["item", "part"]
    assert inspector.get_view_names() == ["shown"]
    assert inspector.get_materialized_view_names() == ["kept"]
    assert inspector.get_pk_constraint("part")["constrained_columns"] == ["id"]
    (key,) = inspector.get_foreign_keys("part")
    assert (key["constrained_columns"], key["referred_table"]) == (["item_id"], "item")
    assert [index["column_names"] for index in inspector.get_indexes("part")] == [["item_id"]]
    assert [one["column_names"] for one in inspector.get_unique_constraints("item")] == [["name"]]
    metadata = sa.MetaData()
    metadata.reflect(engine)
    columns = metadata.tables["item"].c
    assert isinstance(columns.price.type, sa.Numeric)
    assert isinstance(columns.facts.type, JSONB)
    assert str(columns.name.type) == "VARCHAR(20)"


def test_levels(engine: sa.Engine) -> None:
    with (
        engine.connect().execution_options(isolation_level="REPEATABLE READ") as one,
        engine.begin() as other,
    ):
        assert one.get_isolation_level() == "REPEATABLE READ"
        count = sa.select(sa.func.count()).select_from(Item)
        assert one.scalar(count) == 0
        other.execute(sa.insert(Item).values(name="a", price=1))
        other.commit()
        assert one.scalar(count) == 0
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as one:
        assert one.get_isolation_level() == "AUTOCOMMIT"
        one.execute(sa.insert(Item).values(name="b", price=1))
    with engine.connect() as one:
        assert one.get_isolation_level() == "READ COMMITTED"
        assert one.scalar(count) == 2


def test_a_folder_is_open_as_long_as_a_connection_is(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for expected in (1, 2):
        engine = sa.create_engine(f"kpg:///{folder}?synchronous=normal")
        with engine.begin() as connection:
            connection.execute(sa.text("create table if not exists t (a int)"))
            connection.execute(sa.text("insert into t values (:a)"), [{"a": expected}])
            assert connection.scalar(sa.text("select count(*) from t")) == expected
        engine.dispose()
    with kpg.connect(folder) as db:
        assert db.query("select a from t").fetchall() == [(1,), (2,)]


def test_a_database_that_is_open() -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int); insert into t values (5)")
        engine = sa.create_engine("kpg://", connect_args={"database": db})
        with engine.connect() as connection:
            assert connection.scalar(sa.text("select a from t")) == 5
        engine.dispose()
        assert not db.closed


def test_numbers_have_the_digits_that_they_have(engine: sa.Engine) -> None:
    table = sa.Table(
        "measured",
        sa.MetaData(),
        sa.Column("a", sa.Numeric(18, 14)),
        sa.Column("b", sa.Numeric(8, 4, asdecimal=False)),
    )
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"a": decimal.Decimal("8.55147160000001"), "b": 15.7563}])
        ((a, b),) = connection.execute(sa.select(table)).all()
    assert (str(a), b, type(b)) == ("8.55147160000001", 15.7563, float)


def test_many_changes_are_counted(engine: sa.Engine) -> None:
    table = sa.Table(
        "employee", sa.MetaData(), sa.Column("name", sa.String), sa.Column("department", sa.String)
    )
    table.create(engine)
    named = [{"who": "Bob"}, {"who": "Cyd"}, {"who": "nobody"}]
    with engine.begin() as connection:
        connection.execute(
            table.insert(), [{"name": name, "department": "A"} for name in ("Bob", "Cyd", "Dan")]
        )
        change = table.update().where(table.c.name == sa.bindparam("who")).values(department="C")
        assert connection.execute(change, named).rowcount == 2
        assert (
            connection.execute(table.delete().where(table.c.name == sa.bindparam("who")), named).rowcount == 2
        )


def test_times_have_their_zones(engine: sa.Engine) -> None:
    table = sa.Table(
        "clocks", sa.MetaData(), sa.Column("at", sa.Time(timezone=True)), sa.Column("on", sa.Time)
    )
    given = datetime.time(12, 57, 18, tzinfo=datetime.UTC), datetime.time(1, 2, 3, 4)
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), {"at": given[0], "on": given[1]})
        connection.execute(table.insert(), {"at": None, "on": None})
        found = connection.execute(sa.select(table)).all()
        assert set(found) == {given, (None, None)}


def test_identities_of_names_in_quotes_are_reflected(engine: sa.Engine) -> None:
    table = sa.Table("an (odd) %", sa.MetaData(), sa.Column("Id", sa.Integer, sa.Identity(start=7)))
    table.create(engine)
    (column,) = sa.inspect(engine).get_columns("an (odd) %")
    assert column["identity"]["start"] == 7


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("kpg://ann:pw@host/x", "host is nobody that kpg:// asks: its database is in this process"),
        ("kpg:///?nosuch=1", "there is no option nosuch"),
        ("kpg:///?workers=two", "'two' is no number"),
    ],
)
def test_addresses_that_mean_nothing(address: str, message: str) -> None:
    with pytest.raises(kpg.InterfaceError) as caught:
        sa.create_engine(address).connect()
    assert caught.value.message == message
