-- The order of a subquery reaches the query around it.
create table things (id int, name text, size int);
insert into things values (1, 'c', 30), (2, 'a', 10), (3, 'b', 20), (4, null, 5), (5, 'e', null);
/* once */ select * from (select id, name from things where name is not null order by name desc) x limit 2;
/* once */ select id from (select id, size + 1 as s from things order by size desc nulls last, id) x where s > 6 limit 3;
/* once */ with q as (select id, size from things order by size nulls first) select id from q limit 2;
/* once */ select y.id from (select * from (select * from things order by name limit 4) x) y limit 2 offset 1;
select * from (select id, name from things where name is not null order by name desc) x limit 2;
select count(*), max(size) from (select * from things order by size limit 2) x;
with q as (select id, size from things order by size nulls first) select id from q limit 2;
select id from (select id from things order by id desc) x order by id limit 1;
select distinct name from (select name from things order by id) x where name > 'a';
insert into things values (6, 'z', 1), (7, 'aa', 2);
update things set name = 'y' where id = 2;
delete from things where id = 6;
