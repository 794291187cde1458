-- name(t) for t.name, offsets of RANGE that are computed, and what users of several systems write of one table
create table e (id int primary key, label text, dept int, hired date, sal numeric(8, 2));
insert into e values (1, 'ann', 1, '2001-01-05', 5), (2, 'bob', 1, '2001-02-05', 6), (3, 'cid', 2, '2001-02-06', 7.5), (4, 'dee', null, null, null);
select label(e), id(e) + 1, upper(e.label) from e;
select label(x), dept(e) from e x left join e on e.dept = x.id where id(x) < 4;
select dept(e), count(*) from e group by dept(e);
select id, sum(sal) over (order by hired range interval '1 month' + interval '1 day' preceding) from e;
select id, count(*) over (order by hired desc range between '1 mon' preceding and interval '10 days' * 2 following) from e;
/* once */ select nothing(e) from e;
insert into e values (5, 'eve', 2, '2001-03-06', 1), (6, null, 2, '2001-02-20', 2);
update e set hired = hired + 10, label = upper(label) where id in (1, 3);
delete from e where dept = 1;
delete from e;
