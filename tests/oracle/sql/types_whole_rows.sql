-- Rows of relations as values, their fields, arrays of queries.
create table w (a int primary key, b text, c numeric);
insert into w values (1, 'x', 1.5), (2, null, 2), (3, 'q r', null);
select t::text from w t;
select row(t.*)::text, row(t.*, 1)::text, row(t.a, t.b)::text from w t;
select count(t), count(t.*) from w t;
select (t).a, (t).b from w t;
select x.a, y::text, y is null from w x left join w y on y.a = x.a + 1;
select x.a, count(y) from w x left join w y on y.a = x.a + 1 group by x.a;
select array(select a from w order by b desc nulls last), array(select a from w where a > 10), array(select b from w order by a);
select x.a, array(select y.a from w y where y.a >= x.a order by 1 desc) from w x;
select x.a, array(select y.b || '!' from w y where y.a < x.a order by y.a) from w x;
select array(select distinct c from w order by c);
insert into w values (4, 'new', 7);
update w set b = 'z' where a = 2;
delete from w where a = 1;
delete from w;
