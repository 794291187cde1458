-- shown
-- Quoted constants beside DECIMALs keep their places; what a function takes of a quoted constant.
create table d (id int, c numeric(10,2), n numeric, i int, t text, ts timestamp);
insert into d values (1, 1.25, 1.5, 3, 'a', '2020-02-29 12:00'), (2, 1.26, 2, 4, 'b', '2021-01-01'), (3, null, null, null, null, null);
select id, c * '3', c + '3.456', '10' - c, c / '3', '1' / c from d order by id;
select id from d where c = '1.255' or c < '1.2549' order by id;
select id from d where c >= '1.255' order by id;
select id, coalesce(c, '3'), greatest(c, '1.255'), case when id > 1 then c else '7' end, nullif(c, '1.250') from d order by id;
select id from d where c in ('1.25', '1.255', '9') order by id;
select id from d where c between '1.251' and '1.2600' order by id;
select json_build_object(ts, 1), jsonb_build_object(ts, date '2020-01-01') from d where id = 1;
select substr('abc', '2'), substr('abc', '2', '1'), substring('abc', '2'), substring('abc' from '.$') from d where id = 1;
update d set c = c + 1 where id = 2;
insert into d (id, c) values (4, '1.255'), (5, '1.254');
delete from d where id = 1;
