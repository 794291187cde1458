-- shown
-- Functions and operators of infinite dates and timestamps.
create table m (n int, t timestamp, z timestamptz, d date);
insert into m values (1, 'infinity', 'infinity', 'infinity'), (2, '-infinity', '-infinity', '-infinity');
insert into m values (3, '2000-02-03 04:05:06', '2000-02-03 04:05:06', '2000-02-03'), (4, null, null, null);
select n, date_part('epoch', t), date_part('epoch', z), date_part('epoch', d), date_part('year', t), date_part('isoyear', z), date_part('decade', d), date_part('century', t), date_part('millennium', z), date_part('julian', d) from m;
select n, date_part('month', t), date_part('day', z), date_part('dow', t), date_part('hour', t), date_part('week', z), date_part('quarter', d), date_part('timezone', z) from m;
select n, extract(month from t), extract(doy from d), extract(dow from d), extract(dow from z), extract(week from t), extract(microseconds from t), extract(isodow from d) from m;
select n, date_part(case when n < 9 then 'epoch' else 'day' end, t) from m;
select n, to_char(t, 'YYYY'), to_char(z, 'YYYY'), to_char(d, 'DD'), date_bin('1 day', t, '2000-01-01'), date_bin('1 day', z, '2000-01-01 00:00+00'), date_trunc('month', t), date_trunc('hour', z) from m;
select n, t::time, z::time, z::timetz, d + time '10:00', t + interval '1 day', z - interval '1 mon', d + 1, d - 1, date_add(z, interval '1 day'), date_subtract(z, interval '1 day', 'Europe/Berlin') from m;
select n, to_json(t), to_json(z), to_jsonb(d), json_build_array(t, z, d), isfinite(t), isfinite(d) from m;
select extract(dow from date 'infinity'), extract(doy from timestamp '-infinity'), extract(week from date 'infinity'), date_part('epoch', date '-infinity');
select extract(epoch from '-infinity'::timestamptz), extract(epoch from timestamp 'infinity'), extract(year from date 'infinity'), extract(isoyear from timestamp '-infinity'), extract(decade from timestamp '-infinity'), extract(century from timestamptz 'infinity'), extract(millennium from date '-infinity'), extract(julian from date 'infinity'), extract(julian from timestamp '-infinity'), extract(day from date 'infinity'), extract(timezone from timestamptz 'infinity');
select extract(epoch from '-infinity'::timestamptz) + n, n from m;
select age(timestamp 'infinity', timestamp '2000-01-01'), age(timestamp '2000-01-01', timestamp 'infinity'), age(timestamptz 'infinity', timestamptz 'infinity'), age(timestamp 'infinity', timestamp '2001-03-31 05:00:00.5');
/* once */ select age(timestamp 'infinity', timestamp '-infinity');
select to_timestamp('Infinity'::float8), to_timestamp('-Infinity'::float8), to_timestamp(1.5::float8);
/* once */ select to_timestamp('NaN'::float8);
/* once */ select date_bin('1 day', timestamp '2000-01-01', timestamp 'infinity');
/* once */ select date_bin('1 mon', timestamp 'infinity', timestamp '2000-01-01');
/* once */ select age(timestamp '-infinity', timestamp '2000-01-01');
/* once */ select timestamp 'infinity' - timestamp '2000-01-01';
/* once */ select date 'infinity' - date '2000-01-01';
/* once */ select date_part('nosuch', timestamp 'infinity');
update m set t = '2001-01-01', z = '-infinity' where n = 1;
