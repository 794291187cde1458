"""Random statements of roles, privileges, owners, definers and policies, for ``postgres_roles``."""

import random
from collections.abc import Callable
from typing import Final

ROLES: Final = ("ann", "bob", "eve", "team", "boss")
TABLES: Final = ("t", "u", "p", "p1", "s.t")
COLUMNS: Final = ("a", "o", "n")
VIEWS: Final = ("v", "w", "s.v")
FUNCTIONS: Final = ("f", "g")
SETUP: Final = (
    "create schema s",
    "create table t (a int primary key, o text, n int default 0)",
    "create table u (a int primary key, o text, n int references t)",
    "create table s.t (a int primary key, o text, n int default 1)",
    "create table p (a int primary key, o text, n int) partition by range (a)",
    "create table p1 partition of p for values from (0) to (5)",
    "create table p2 partition of p for values from (5) to (1000)",
    "create sequence q",
    "insert into t select i, (array['ann', 'bob', 'eve'])[1 + i % 3], i % 4 from generate_series(0, 8) g(i)",
    "insert into s.t select * from t",
    "insert into p select * from t",
    "insert into u select * from t where a < 4",
    "create view v as select a, o from t where a < 7",
    "create view w with (security_invoker) as select o, count(*) as n from t group by o",
    "create view s.v as select a, o, n from p",
    "create function f(i int) returns int language sql security definer as 'select n from t where a = i'",
    "create function g(i int) returns bigint language sql as 'select count(*) from s.t where a < i'",
)
PRIVILEGES: Final = ("select", "insert", "update", "delete", "truncate", "references", "trigger")
LISTS: Final = (
    "select relname, relacl::text, pg_get_userbyid(relowner) from pg_class c join pg_namespace n"
    " on n.oid = relnamespace where nspname in ('public', 's') and relkind in ('r', 'v', 'p', 'S')",
    "select relname, attname, attacl::text from pg_attribute join pg_class c on c.oid = attrelid"
    " where attacl is not null and relnamespace in"
    " (select oid from pg_namespace where nspname in ('public', 's'))",
    "select r.rolname, m.rolname, admin_option, inherit_option, set_option from pg_auth_members"
    " join pg_roles r on r.oid = roleid join pg_roles m on m.oid = member where r.rolname !~ '^pg_'",
    "select relname, polname, polcmd, polpermissive from pg_policy join pg_class c on c.oid = polrelid",
    "select pg_get_userbyid(defaclrole), defaclobjtype, defaclacl::text from pg_default_acl",
)


class Statements:
    """What may come next, by chance."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._made = 0

    def setup(self) -> list[str]:
        """Roles and things, some of them roles' own."""
        said = []
        for name in ROLES:
            options = [one for one in ("noinherit", "bypassrls", "createrole") if self._odds(0.12)]
            said.append(f"create role {name} {' '.join(options)}")
        said += SETUP
        said += [f"alter table {one} owner to {self._role()}" for one in ("t", "p", "s.t") if self._odds(0.5)]
        said += [f"alter view {one} owner to {self._role()}" for one in VIEWS if self._odds(0.4)]
        said += [
            f"grant {self._privileges('all')} on {one} to {self._grantee()}" for one in (*TABLES, *VIEWS) * 2
        ]
        said += [f"grant usage on schema s to {self._grantee()}", f"grant {self._role()} to {self._role()}"]
        return said

    def next(self) -> str:
        """One statement."""
        makers: tuple[tuple[Callable[[], str], int], ...] = (
            (self._become, 25),
            (self._read, 22),
            (self._write, 26),
            (self._grant, 10),
            (self._member, 6),
            (self._policy, 12),
            (self._define, 6),
            (self._own, 3),
            (self._defaults, 3),
            (self._ask, 8),
        )
        return self._chance.choices(*zip(*makers, strict=True))[0]()

    def _odds(self, share: float) -> bool:
        return self._chance.random() < share

    def _one(self, *some: str) -> str:
        return self._chance.choice(some)

    def _role(self) -> str:
        return self._one(*ROLES)

    def _grantee(self) -> str:
        return self._role() if self._odds(0.85) else "public"

    def _table(self) -> str:
        return self._chance.choices(TABLES, (5, 2, 5, 2, 4))[0]

    def _relation(self) -> str:
        return self._table() if self._odds(0.7) else self._one(*VIEWS)

    def _become(self) -> str:
        kinds = ("set role {}", "set session authorization {}")
        if self._odds(0.3):
            return self._one("reset role", "reset session authorization", "set role none")
        return self._one(*kinds, kinds[1]).format(self._role())

    def _privileges(self, every: str = "") -> str:
        if self._odds(0.15 if not every else 0.4):
            return "all"
        some = self._chance.sample(PRIVILEGES[:4] * 3 + PRIVILEGES, k=self._chance.randint(1, 3))
        if every or self._odds(0.6):
            return ", ".join(dict.fromkeys(some))
        named = [f"{one} ({self._columns()})" for one in dict.fromkeys(some) if one in PRIVILEGES[:3]]
        return ", ".join(named or [f"select ({self._columns()})"])

    def _columns(self) -> str:
        return ", ".join(self._chance.sample(COLUMNS, k=self._chance.randint(1, 2)))

    def _grant(self) -> str:
        kind = self._chance.choices(("table", "schema", "function", "sequence"), (8, 2, 1, 1))[0]
        match kind:
            case "table":
                what = f"{self._privileges()} on {self._relation()}"
                if self._odds(0.1):
                    what = f"{self._one('select', 'all')} on all tables in schema {self._one('s', 'public')}"
            case "schema":
                what = f"{self._one('usage', 'create', 'all')} on schema s"
            case "function":
                what = f"execute on function {self._one('f', 'g')}(int)"
            case _:
                what = f"{self._one('usage', 'select', 'update')} on sequence q"
        return self._granted(what)

    def _granted(self, what: str) -> str:
        if self._odds(0.6):
            return f"grant {what} to {self._grantee()}" + " with grant option" * self._odds(0.25)
        option = "grant option for " * self._odds(0.2)
        return f"revoke {option}{what} from {self._grantee()}" + " cascade" * self._odds(0.4)

    def _member(self) -> str:
        role, member = self._role(), self._role()
        if self._odds(0.6):
            option = self._one(
                "", "", "admin option", "inherit false", "inherit true", "set false", "admin true"
            )
            return f"grant {role} to {member}" + f" with {option}" * bool(option)
        option = self._one("", "", "", "admin option for ", "inherit option for ", "set option for ")
        return f"revoke {option}{role} from {member}" + " cascade" * self._odds(0.3)

    def _condition(self) -> str:
        return self._one(
            "o = current_user",
            "o = session_user",
            f"a < {self._chance.randint(0, 9)}",
            "n > 0",
            f"a % 2 = {self._chance.randint(0, 1)}",
            "true",
            "exists (select 1 from u where u.o = current_user)",
            f"a in (select a from s.t where n < {self._chance.randint(1, 4)})",
            f"pg_has_role(current_user, '{self._role()}', 'member')",
            "f(a) > 0",
        )

    def _policy(self) -> str:
        table = self._table()
        if self._odds(0.4):
            verb = self._one("enable", "enable", "enable", "disable", "force", "no force")
            return f"alter table {table} {verb} row level security"
        name = self._one("x", "y", "z")
        if self._odds(0.2):
            return f"drop policy {name} on {table}"
        using, check = f" using ({self._condition()})", f" with check ({self._condition()})"
        parts = self._one(using, using + check, check)
        to = f" to {self._grantee()}" if self._odds(0.5) else ""
        if self._odds(0.15):
            return f"alter policy {name} on {table}{to}{parts}"
        command = self._one(
            "", "", *(f" for {one}" for one in ("select", "insert", "update", "delete", "all"))
        )
        kind = " as restrictive" * self._odds(0.3)
        return f"create policy {name} on {table}{kind}{command}{to}{parts}"

    def _define(self) -> str:
        self._made += 1
        match self._chance.randint(0, 7):
            case 0:
                return f"create table {self._one('', 's.')}made{self._made} (a int, o text, n int)"
            case 1:
                option = " with (security_invoker)" * self._odds(0.3)
                query = f"select a, o, n from {self._table()}"
                return f"create view {self._one('', 's.')}seen{self._made}{option} as {query}"
            case 2:
                option = " security definer" * self._odds(0.6)
                body = f"select count(*) from {self._relation()}"
                return f"create or replace function made() returns bigint language sql{option} as '{body}'"
            case 3:
                return f"alter function {self._one('f', 'g')}(int) security {self._one('definer', 'invoker')}"
            case 4:
                return f"alter table {self._table()} add column c{self._made} int"
            case 5:
                return f"create index i{self._made} on {self._table()} (n)"
            case 6:
                name = f"{self._one('made', 'seen')}{self._chance.randint(1, self._made)}"
                return f"drop {self._one('table', 'view')} {self._one('', 's.')}{name}"
            case _:
                return f"alter view {self._one(*VIEWS)} set (security_invoker = {self._one('true', 'false')})"

    def _own(self) -> str:
        match self._chance.randint(0, 5):
            case 0:
                return f"reassign owned by {self._role()} to {self._role()}"
            case 1:
                return f"alter view {self._one(*VIEWS)} owner to {self._role()}"
            case 2:
                return f"alter function {self._one(*FUNCTIONS)}(int) owner to {self._role()}"
            case 3:
                options = ("inherit", "noinherit", "bypassrls", "nobypassrls", "createrole")
                return f"alter role {self._role()} {self._one(*options)}"
            case _:
                return f"alter table {self._table()} owner to {self._role()}"

    def _defaults(self) -> str:
        whose = f" for role {self._role()}" * self._odds(0.6)
        where = f" in schema {self._one('s', 'public')}" * self._odds(0.5)
        what = f"{self._one('select', 'insert', 'all', 'select, update')} on tables"
        if self._odds(0.2):
            what = "execute on functions"
        if self._odds(0.7):
            return f"alter default privileges{whose}{where} grant {what} to {self._grantee()}"
        return f"alter default privileges{whose}{where} revoke {what} from {self._grantee()}"

    def _read(self) -> str:
        first, second = self._relation(), self._relation()
        column = self._one(*COLUMNS)
        return self._one(
            f"select * from {first}",
            f"select {column} from {first}",
            f"select {column}, count(*) from {first} group by {column}",
            f"select count(*) from {first}",
            f"select 1 from {first}",
            f"select x.{column} from {first} x join {second} y on x.o = y.o",
            f"select {column} from {first} where o = (select min(o) from {second})",
            f"select a, f(a) from {self._table()}",
            f"select g({self._chance.randint(0, 9)})",
            "select made()",
            "select current_user, session_user",
            f"select row_security_active('{self._table()}')",
            f"with x as (select a, o from {first}) select * from x where a in (select a from {second})",
            f"select a from only {self._table()}",
            "select nextval('q')",
            f"select {column} from {self._table()} for update",
        )

    def _write(self) -> str:
        table = self._table() if self._odds(0.8) else "v"
        number, other = self._chance.randint(0, 40), self._chance.randint(0, 9)
        who, name = self._one(*ROLES), self._one("a", "n")
        returning = self._one("", "", " returning a", " returning o", " returning *")
        where = self._one(
            "", " where true", f" where a = {other}", f" where a < {other}", f" where o = '{who}'"
        )
        given = self._one("o, a", "a, o, n", "a")
        values = {"o, a": f"'{who}', {number}", "a, o, n": f"{number}, '{who}', {other}", "a": str(number)}[
            given
        ]
        insert = f"insert into {table} ({given}) values ({values})"
        changed = self._one(f"o = '{who}'", "n = n + 1", "n = 1", f"n = {other}, o = o", f"a = {number}")
        if changed == f"a = {number}":
            where = f" where a = {other}"  # several rows would get one key
        target = self._table()
        query = f"select a + {number}, o from {self._relation()} where a = {other}"
        shown = returning.replace(" a", " y.a").replace(" o", " y.o")
        source = f"(values ({other}, '{who}')) x (a, o)"
        return self._one(
            insert + returning,
            insert + " on conflict do nothing" + returning,
            insert + f" on conflict (a) do update set {self._one('o = excluded.o', 'n = 3')}" + returning,
            f"update {table} set {changed}{where}{returning}",
            f"update {table} set {changed}{where}{returning}",
            f"delete from {table}{where if self._odds(0.8) else f' where a = {other}'}{returning}",
            f"delete from {table} where {name} = {other}{returning}",
            f"insert into {table} (a, o) {query}{returning}",
            f"update {table} set n = y.n from {self._table()} y where y.a = {table}.a{shown}",
            f"merge into {target} using {source} on {target}.a = x.a when matched then "
            + self._one("update set o = x.o", "delete", "do nothing")
            + self._one("", f" when not matched then insert (a, o) values ({number}, '{who}')"),
            f"truncate {self._one('u', 'p1', 's.t')}",
        )

    def _ask(self) -> str:
        role, relation = self._role(), self._relation()
        return self._one(
            f"select has_table_privilege('{role}', '{relation}', '{self._one(*PRIVILEGES)}')",
            f"select has_column_privilege('{role}', '{relation}', 'a', '{self._one('select', 'update')}')",
            f"select has_any_column_privilege('{role}', '{relation}', 'select')",
            f"select has_schema_privilege('{role}', 's', '{self._one('usage', 'create')}')",
            f"select has_function_privilege('{role}', 'f(int)', 'execute')",
            f"select pg_has_role('{role}', '{self._role()}', '{self._one('member', 'usage', 'set')}')",
            LISTS[0],
            LISTS[1],
            LISTS[2],
        )
