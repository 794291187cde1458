-- describe
select * from pet
select p.id as number, o.name, o.id + 1 as more, count(*) over () from pet p join owner o on o.id = p.owner
select * from light
select * from heavy
select 1, 'x', 1.5, null, true, now(), date '2020-01-01', interval '1 day', array[1], 'a'::name, 1::smallint
select sum(weight), avg(weight), max(born), min(name), count(*), string_agg(name, ','), array_agg(id) from pet
select relname, relkind, reltuples, oid, relacl from pg_class
select table_name, ordinal_position, is_nullable, column_default from information_schema.columns
select cast(name as varchar(5)), cast(weight as numeric(5, 1)), cast(id as text), name || 'x', lower(name) from pet
select r, d, s, u, j, jb, raw, b, vb, addr, tags, nums, how, l, p, both_, took from pet
-- parameters
select * from pet where id = ? and name = ? and weight > ? and born < ? and how = ?
insert into pet (owner, name, weight, born, seen, at, alarm, tags, alive, u, jb) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
update pet set price = ?, r = ?, d = ?, raw = ?, took = ? where id in (?, ?)
select ? + 1, ? || 'x', coalesce(?, 2), ?::date, cast(? as numeric), upper(?)
select * from pet where name like ? limit ? offset ?
select * from pet where id = any (?) and tags @> ?
select case when ? then 1 else ? end
delete from owner where id between ? and ?
select add2(?, ?)
