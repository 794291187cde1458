-- Formatting by templates, and reading by them.
create table shown (id int, t timestamp, d date, s interval, n numeric(12, 3), f double precision, i int);
insert into shown values
    (1, '2002-04-20 17:31:12.66', '2002-04-20', '15:02:12', 485, 485.8, 12), (2, '1999-12-31 00:00:00', '1999-12-31', '-1 day -02:03:04', -125.8, -12.5, -7),
    (3, '2021-01-03 12:00:01.000001', '2021-01-03', '2 years 3 mons', 0, 0, 0), (4, null, null, null, null, null, null), (5, '2000-02-29 23:59:59', '2000-02-29', '100 hours 5 seconds', 1234567.891, 0.015, 1234567);
select to_char(t, 'HH12:MI:SS'), to_char(t, 'HH24:MI:SS.US'), to_char(t, 'HH:MI AM'), to_char(t, 'hh24 mi ss ms'), to_char(t, 'SSSS'), to_char(t, 'HH12 a.m.'), to_char(t, 'FMHH12:FMMI') from shown;
select to_char(t, 'YYYY-MM-DD'), to_char(t, 'YY Y YYY'), to_char(t, 'Y,YYY'), to_char(t, 'IYYY IW ID IDDD'), to_char(t, 'DDD D WW W CC J Q'), to_char(t, 'BC AD b.c. a.d.') from shown;
select to_char(t, 'Day, DD  HH12:MI:SS'), to_char(t, 'FMDay, FMDD  HH12:MI:SS'), to_char(t, 'Month MONTH month Mon MON mon'), to_char(t, 'DAY Dy DY dy'), to_char(t, 'FMMonth FMDDth, YYYY'), to_char(t, 'RM rm FMRM') from shown;
select to_char(t, '"Week" WW "of" YYYY'), to_char(t, 'DDth DDTH'), to_char(t, 'YYYYMMDDHH24MISS'), to_char(t, 'yyyy/mm/dd'), to_char(t, 'FF3 FF6'), to_char(t, 'DD\"x"') from shown;
select to_char(d, 'YYYY-MM-DD HH24:MI TZ'), to_char(d, 'Dy DD Mon'), to_char(d, 'FMMM/FMDD/YY') from shown;
select to_char(s, 'HH24:MI:SS'), to_char(s, 'DD HH24'), to_char(s, 'YYYY MM DD'), to_char(s, 'HH12 MI') from shown;
select to_char(n, '999'), to_char(n, '999.99'), to_char(n, '9,999,999.99'), to_char(n, 'FM999999.99'), to_char(n, '0000.0'), to_char(n, 'S999.9'), to_char(n, '999.9S'), to_char(n, '999PR'), to_char(n, '999MI'), to_char(n, 'SG999'), to_char(n, 'PL999') from shown;
select to_char(f, '999D99'), to_char(f, 'FM999.990'), to_char(f, '9.99EEEE'), to_char(i, '9G999G999'), to_char(i, '00000'), to_char(i, 'FM999999999'), to_char(i, '999th'), to_char(i, 'RN'), to_char(i, 'FMRN') from shown;
select to_char(-0.1, '99.99'), to_char(-0.1, 'FM9.99'), to_char(-0.1, 'FM90.99'), to_char(0.1, '0.9'), to_char(12, '9990999.9'), to_char(12, 'FM9990999.9'), to_char(485, '999'), to_char(-485, '999'), to_char(485, '9 9 9'), to_char(1485, '9,999'), to_char(1485, '9G999');
select to_char(148.5, '999.999'), to_char(148.5, 'FM999.999'), to_char(148.5, 'FM999.990'), to_char(148.5, '999D999'), to_char(3148.5, '9G999D999'), to_char(-485, '999S'), to_char(-485, '999MI'), to_char(485, '999MI'), to_char(485, 'FM999MI'), to_char(485, 'PL999'), to_char(485, 'SG999'), to_char(-485, 'SG999'), to_char(-485, '9SG99'), to_char(-485, '999PR'), to_char(485, 'L999');
select to_char(485, 'RN'), to_char(485, 'FMRN'), to_char(5.2, 'FMRN'), to_char(482, '999th'), to_char(485, '"Good number:"999'), to_char(485.8, '"Pre:"999" Post:" .999'), to_char(12, '99V999'), to_char(12.4, '99V999'), to_char(12.45, '99V9'), to_char(0.0004859, '9.99EEEE'), to_char(123456, '999'), to_char(1, '9'), to_char(0, '9'), to_char(0, '0.0'), to_char(12.5, '');
select to_date('05 Dec 2000', 'DD Mon YYYY'), to_date('20001205', 'YYYYMMDD'), to_date('2000-12-5', 'YYYY-MM-DD'), to_date('5/12/00', 'DD/MM/YY'), to_date('December 5, 2000', 'Month DD, YYYY'), to_date('2000 340', 'YYYY DDD'), to_date('2000-W49-2', 'IYYY-"W"IW-ID'), to_date('2451884', 'J');
select to_timestamp('05 Dec 2000', 'DD Mon YYYY'), to_timestamp('2011-12-18 11:38:15', 'YYYY-MM-DD HH24:MI:SS'), to_timestamp('2011-12-18 11:38 PM', 'YYYY-MM-DD HH12:MI PM'), to_timestamp('20111218113815', 'YYYYMMDDHH24MISS'), to_timestamp('2011-12-18 11:38:15.123', 'YYYY-MM-DD HH24:MI:SS.MS');
select to_number('12,454.8-', '99G999D9S'), to_number('-34,338,492', '99G999G999'), to_number('0.01', '9.99'), to_number('123', '999'), to_number('$12.50', 'L99.99'), to_number('  7', '999');
select to_date(to_char(t, 'YYYY MM DD'), 'YYYY MM DD') = t::date from shown;
/* once */ select to_date('2000-13-01', 'YYYY-MM-DD');
/* once */ select to_date('x', 'YYYY');
/* once */ select to_timestamp('25:00', 'HH24:MI');
/* once */ select to_number('x', '999');
update shown set t = t + interval '7 months', n = n / 3, f = f * 100, i = i + 1 where id in (1, 2);
insert into shown select id + 10, t, d + 1, s, -n, -f, i * 2 from shown where id not in (3, 4);
delete from shown where id > 10;
delete from shown;
