-- shown
-- Functions of floats at infinities and NaN, casts of intervals to fields, loosely written moments, odd LIMITs.
create table odd (a int, b text);
insert into odd values (1, 'x'), (2, 'y'), (3, '2');
/* once */ select sin('Infinity'::float8);
/* once */ select acos('-Infinity'::float8);
/* once */ select sqrt('-Infinity'::float8);
/* once */ select ln('-Infinity'::float8);
/* once */ select '0'::float8 ^ '-Infinity'::float8;
/* once */ select '-Infinity'::float8 ^ '0.5'::float8;
/* once */ select '0.5'::float8 ^ '1e300'::float8;
/* once */ select '-10e-70'::float8::float4;
/* once */ select '1e400'::text::float8;
/* once */ select 'NaN'::float8 / '0'::float8, sign('NaN'::float8), sign('NaN'::float4), sign('-Infinity'::float8);
/* once */ select sinh('1e300'::float8), cosh('1e300'::float8);
/* once */ select cast('1' as interval year), cast('1' as interval month), cast('1' as interval day);
/* once */ select cast('1' as interval hour), cast('-1' as interval minute), cast('1.5' as interval second);
/* once */ select cast('1' as interval day to hour), cast('1' as interval year to month), cast('1 2' as interval hour);
/* once */ select ('1' || '')::interval hour, ('1:30' || '')::interval hour;
/* once */ select '2001 02-03'::date, '2001.02.03'::date, time '1:2:3.789', time '1:2', timestamp '2001-2-3 4:5';
/* once */ select time '1:60';
/* once */ select a from odd order by a limit (select 1.5);
/* once */ select a from odd order by a limit (select 2.5::float8);
/* once */ select a from odd order by a limit (select 'ab');
/* once */ select a from odd order by a limit (select b from odd where a = 3);
/* once */ select a from odd order by a offset (select date '2001-01-01');
/* once */ select (select max(min(o.a)) from odd p) from odd o;
/* once */ select (select sum(count(o.a)) from odd p) from odd o;
/* once */ select (select max(p.a + min(o.a)) from odd p) from odd o;
