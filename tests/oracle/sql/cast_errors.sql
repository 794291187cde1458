create table e (t text, x float8, n numeric);
insert into e values ('12', 1.5, 3), (null, null, null), (' 7 ', 2, 1);
select t::int, x::int, n::smallint, t::numeric(4, 1) from e;
/* once */ select 'x'::int;
/* once */ select '{1,a}'::int[];
/* once */ select '2020-02-30'::date;
/* once */ select '[2,1]'::int4range;
/* once */ select t::date from e;
update e set t = '-0x1F' where t = '12';
