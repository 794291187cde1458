create schema other;
create type mood as enum ('sad', 'ok', 'happy');
create type pair as (a int, b text);
create domain positive as int default 1 not null check (value > 0);
create domain label as varchar(20);
create sequence counter start 5 increment 2;
create table owner (id int primary key, name text not null unique, code char(3) default 'abc');
create table pet (
  id bigint generated always as identity primary key, owner int references owner (id) on delete cascade,
  name varchar(30) not null default 'x', weight numeric(8,3), price numeric, r real, d double precision, s smallint default 3,
  born date, seen timestamp, at timestamptz(3) default now(), alarm time, took interval, tags text[], nums int[], alive bool default true,
  how mood default 'ok', p positive, l label, both_ pair, u uuid, j json, jb jsonb, raw bytea, b bit(4), vb bit varying(7), addr inet, twice int generated always as (s * 2) stored,
  constraint light check (weight < 100), unique (owner, name));
create index by_born on pet (born desc, name);
create index by_lower on pet (lower(name)) where alive;
create table other.visit (pet bigint, day date, cost numeric, primary key (pet, day), foreign key (pet) references pet (id) on update set null);
create view light as select id, name, weight from pet where weight < 5;
create materialized view heavy as select owner, count(*) as n from pet group by owner;
create function add2(x int, y int default 2) returns int language sql immutable as 'select x + y';
create function both3(x int, out a int, out b text) language sql as 'select x, ''y''';
create table parted (id int, at date) partition by range (at);
create table parted1 partition of parted for values from ('2020-01-01') to ('2021-01-01');
comment on table pet is 'the pets';
comment on column pet.name is 'called';
create table serials (id serial primary key, x int);
