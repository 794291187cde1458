create type mood as enum ('sad', 'ok');
create type pair as (a int, b text);
create domain pos as int not null default 1 constraint pos_check check (value > 0);
create table dept (id serial primary key, title varchar(20) not null unique,
    budget numeric(12, 2) default 0 check (budget >= 0));
create function plus(a int, b int default 2) returns int language sql immutable strict as $$ select a + b $$;
create function many(n int) returns table (x int, y text) language sql stable as $$ select n, 'a' $$;
create table emp (id bigint generated always as identity primary key, name text not null default 'x',
    dept int references dept (id) on delete cascade, m mood default 'ok', hired date,
    at timestamptz default '2020-01-01 00:00+00', tags text[], j jsonb, p pos,
    dbl int generated always as (2 * dept) stored,
    constraint long_name check (length(name) > 0 and name <> 'y'));
create index on emp (dept, name desc);
create index emp_lower on emp (lower(name)) where dept > 1;
create unique index emp_u on emp (tags);
create unique index emp_ux on emp (lower(name)) where hired is not null;
create table empty (a int, b text, c real, d double precision, e char(3), f bit(4), g interval, h timestamp(3),
    i boolean default true, u uuid, bt bytea, check (a in (1, 2) or b like 'x%' or not i),
    check ((c + 1) * 2 > d));
create view rich as select e.name, d.title from emp e join dept d on d.id = e.dept where d.budget > 10;
create view above as select name, plus(1) as two from rich;
create materialized view counts as select dept, count(*) as n from emp group by dept;
create unique index on counts (dept);
create sequence sq start 7 increment 2;
create schema other;
create table other.t (x int primary key, y text unique, d int references dept);
create table other.dept (a int primary key);
create view other.v as select x from other.t;
create function other.f(x int) returns int language sql as 'select x';
create type other.color as enum ('r');
create table other.c (c other.color default 'r', p pair);
create table part (k int, v text, primary key (k)) partition by range (k);
create table part_1 partition of part for values from (1) to (10);
create table part_d partition of part default;
create table secured (a int, who text);
alter table secured enable row level security;
create policy own on secured for select using (who = current_user);
comment on table emp is 'people; all';
comment on column emp.name is 'it''s a name';
comment on view rich is 'a view';
comment on function plus(int, int) is 'adds';
comment on schema other is 'more';
comment on type mood is 'moods';
comment on sequence sq is 'seq';
comment on index emp_lower is 'ix';
comment on constraint long_name on emp is 'con';
comment on domain pos is 'positive';
create table refs (a int, b int, foreign key (a) references dept (id)
    on update cascade on delete set null deferrable initially deferred);
insert into dept (title, budget) values ('it', 100), ('hr', 5.5);
insert into emp (name, dept, tags) values (E'a\tb', 1, '{a,b}'), ('c', 2, null);
insert into part values (1, 'x'), (50, 'y');
insert into other.t values (1, 'z', 1);
refresh materialized view counts;
