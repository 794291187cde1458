-- Set operations of values that are equal and look different: the left ones are shown, as often as ALL counts them.
create table l (a int, i interval, n numeric, j jsonb);
create table r (a int, i interval, n numeric, j jsonb);
insert into l values (1, '1 mon', 1.50, '{"x": 1.0}'), (1, '1 mon', 1.50, '{"x": 1.0}'), (2, '30 days', 2, '2'), (3, null, null, null);
insert into l values (3, null, null, null), (4, '1 year 01:00:00', 4.000, '[4.0]'), (5, '24:00:00', 5, '5');
insert into r values (1, '30 days', 1.5, '{"x": 1}'), (3, null, null, null), (5, '1 day', 5.0, '5.00'), (6, '1 day', 6, '6');
select a, i::text, n::text, j::text from (select * from l except all select * from r) x;
select a, i::text, n::text, j::text from (select * from l intersect all select * from r) x;
select a, i::text, n::text, j::text from (select * from l except select * from r) x;
select a, i::text, n::text, j::text from (select * from l intersect select * from r) x;
select k, x.* from (values (1), (2), (3)) v(k), lateral (select i::text i, n::text n from (select i, n from l where a >= k except all select i, n from r where a > k) y) x;
insert into r values (1, '720:00:00', 1.500, '{"x": 1.00}'), (4, '360 days 1 hour', 4, '[4]');
delete from r where a = 3;
insert into l values (6, '24 hours', 6.0, '6.0');
delete from l where a = 5;
update r set i = i + interval '1 day' where a = 1;
delete from r;
delete from l;
