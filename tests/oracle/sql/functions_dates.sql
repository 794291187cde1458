-- Dates and times: fields, units, arithmetic, making.
create table moment (id int, d date, t timestamp, z timestamptz, c time, s interval);
insert into moment values
    (1, '2001-02-16', '2001-02-16 20:38:40.123456', '2001-02-16 20:38:40.12+00', '20:38:40.5', '1 year 2 mons 3 days 04:05:06.789'),
    (2, '1970-01-01', '1970-01-01 00:00:00', '1970-01-01 00:00:00+00', '00:00:00', '0'),
    (3, '1999-12-31', '1999-12-31 23:59:59.999999', '1999-12-31 23:59:59+00', '23:59:59.999999', '-1 mon -1 day -00:00:01'),
    (4, '2000-02-29', '2000-02-29 12:00:00', '2000-02-29 12:00:00+00', '12:00', '40 days 50 hours'), (5, null, null, null, null, null),
    (6, '1900-01-01', '1900-01-01 06:30:00', '1900-01-01 06:30:00+00', '06:30', '-15 years'), (7, '2024-12-30', '2024-12-30 01:02:03', '2024-12-30 01:02:03+00', '01:02:03', '1000 years 11 mons');
select id, extract(year from d), extract(month from d), extract(day from d), extract(quarter from d), extract(week from d), extract(dow from d), extract(isodow from d), extract(doy from d), extract(epoch from d) from moment;
select id, extract(century from d), extract(decade from d), extract(millennium from d), extract(isoyear from d), extract(julian from d) from moment;
select id, extract(hour from t), extract(minute from t), extract(second from t), extract(milliseconds from t), extract(microseconds from t), extract(epoch from t) from moment;
select id, extract(year from t), extract(century from t), extract(isoyear from t), extract(week from t), extract(doy from t) from moment;
select id, extract(year from z), extract(hour from z), extract(second from z), extract(epoch from z), extract(timezone from z), extract(timezone_hour from z) from moment;
select id, extract(hour from c), extract(minute from c), extract(second from c), extract(epoch from c) from moment;
select id, extract(year from s), extract(month from s), extract(day from s), extract(hour from s), extract(minute from s), extract(second from s), extract(epoch from s), extract(quarter from s), extract(decade from s), extract(century from s) from moment;
select id, date_part('year', t), date_part('epoch', t), date_part('second', t), date_part('hour', s), date_part('minute', c), date_part('dow', d), date_part('julian', t) from moment;
select id, date_trunc('hour', t), date_trunc('day', t), date_trunc('week', t), date_trunc('month', t), date_trunc('quarter', t), date_trunc('year', t) from moment;
select id, date_trunc('millennium', t), date_trunc('century', t), date_trunc('decade', t), date_trunc('milliseconds', t), date_trunc('second', t), date_trunc('minute', t) from moment where id <> 7;
select id, date_trunc('month', d), date_trunc('day', z), date_trunc('hour', z), date_trunc('day', z, 'UTC') from moment;
select id, date_trunc('hour', s)::text, date_trunc('day', s)::text, date_trunc('month', s)::text, date_trunc('year', s)::text, date_trunc('decade', s)::text from moment;
select age(timestamp '2001-04-10', timestamp '1957-06-13')::text, age(timestamp '2000-03-01', timestamp '2000-01-31')::text, age(timestamp '2000-01-31', timestamp '2000-03-01')::text, age(date '2020-02-29', date '2019-03-31')::text;
select a.id, b.id, age(a.t, b.t)::text from moment a, moment b;
select id, age(timestamp '2010-05-15 13:14:15', t)::text, age(z, timestamptz '2005-03-31 10:00:00+00')::text from moment;
select date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01'), date_bin('2 hours 30 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01 00:02:30'), date_bin('1 day', timestamp '1999-05-05 01:00', timestamp '2001-01-01');
select id, date_bin('6 hours', t, timestamp '1880-01-01 00:01') from moment;
select make_date(2013, 7, 15), make_time(8, 15, 23.5), make_timestamp(2013, 7, 15, 8, 15, 23.5), make_timestamptz(2013, 7, 15, 8, 15, 23.5), make_interval(days => 10)::text, make_interval(1, 2, 3, 4, 5, 6, 7.5)::text, make_interval(hours => 30, mins => -5)::text, make_interval()::text;
select justify_days(interval '1 year 65 days')::text, justify_hours(interval '50 hours 10 minutes')::text, justify_interval(interval '1 mon -1 hour')::text, justify_interval(interval '-1 mon 40 days 50 hours')::text;
select id, justify_days(s)::text, justify_hours(s)::text, justify_interval(s)::text from moment;
select isfinite(date '2001-02-16'), isfinite(timestamp '2001-02-16'), isfinite(interval '4 hours');
select (date '2001-02-16', date '2001-12-21') overlaps (date '2001-10-30', date '2002-10-30'), (date '2001-02-16', interval '100 days') overlaps (date '2001-10-30', date '2002-10-30'), (date '2001-10-29', date '2001-10-30') overlaps (date '2001-10-30', date '2001-10-31'), (date '2001-10-30', date '2001-10-30') overlaps (date '2001-10-30', date '2001-10-31'), (time '10:00', time '11:00') overlaps (time '10:30', time '12:00');
select a.id, b.id from moment a, moment b where (a.d, a.t) overlaps (b.d, b.t);
select date '2001-09-28' + 7, date '2001-09-28' - 7, date '2001-10-01' - date '2001-09-28', date '2001-09-28' + time '03:00', timestamp '2001-09-28 01:00' + interval '23 hours', time '01:00' + interval '3 hours', time '05:00' - time '03:00', timestamp '2001-09-29 03:00' - timestamp '2001-07-27 12:00', timestamp '2001-09-28 23:00' - interval '23 hours', interval '1 day' - interval '1 hour', 21 * interval '1 second', interval '1 hour' / 1.5, - interval '23 hours';
select id, d + 1, d - 1, t + interval '1 month', t - interval '1 day 2 hours', t - timestamp '2000-01-01', z + interval '1 hour', c + interval '90 minutes' from moment;
select id, t::date, t::time, d::timestamp, z::date, s::time, s::text, t::text, d::text from moment;
select date_add(timestamptz '2021-10-31 00:00:00+00', interval '1 day'), date_subtract(timestamptz '2021-11-01 00:00:00+00', interval '1 day');
select to_timestamp(0), to_timestamp(1284352323), to_timestamp(1.5);
select id from moment where extract(year from t) between 1999 and 2001 and d >= date '2000-01-01';
select extract(year from t) y, count(*) from moment group by y;
select id, date(t), date_trunc('month', t) + interval '1 month - 1 day' from moment;
/* once */ select extract(hour from date '2001-01-01');
/* once */ select extract(nonsense from timestamp '2001-01-01');
/* once */ select date_trunc('nonsense', timestamp '2001-01-01');
/* once */ select date_part('nonsense', timestamp '2001-01-01');
/* once */ select make_date(2013, 2, 30);
/* once */ select make_time(25, 0, 0);
/* once */ select date_bin('1 month', timestamp '2001-01-01', timestamp '2001-01-01');
/* once */ select date_bin('0', timestamp '2001-01-01', timestamp '2001-01-01');
update moment set t = t + interval '1 year 1 day', d = d - 40, s = s * 2 where id in (1, 4);
insert into moment select id + 10, d + 366, t, z, c, s from moment where id < 4;
delete from moment where id = 2 or d is null;
delete from moment;
