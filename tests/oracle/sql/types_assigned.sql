-- What is stored in a column of another type without a cast.
create table s (id int primary key, i interval, z timestamptz, t time, j jsonb, a numeric[], d date, m int[], p timestamp);
insert into s select 1, timestamp '2020-01-02' - timestamp '2020-01-01 10:00', timestamp '2020-01-01', timestamp '2020-01-01 10:11', json '{"a": 1}', array[1,2], timestamptz '2020-01-01 00:00+00', array[1.5, 2], date '2020-01-01';
insert into s values (2, interval '1 day', date '2020-01-01', interval '1 hour', '{"b":  1}', '{1.50}', timestamp '2020-02-02 10:00', '{1}', date '2020-01-01');
select id, i::text, z, t, j, a, d, m, p from s;
/* once */ insert into s (id, a) values (3, 'x');
/* once */ insert into s (id, d) values (3, 1);
/* once */ insert into s (id, m) values (3, array['a']);
update s set i = p - timestamp '2019-01-01', z = p, j = '[1]', a = m where id = 1;
delete from s where id = 2;
