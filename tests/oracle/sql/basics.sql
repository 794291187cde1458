-- Tables, changes and queries that every user begins with.
create table item (id int primary key, kind text, price numeric(10, 2), since date);
insert into item values (1, 'tea', 2.50, '1998-12-01'), (2, 'tea', 4, null), (3, 'pot', 12.75, '2001-02-28');
insert into item (id, kind) values (4, null);
select * from item order by id;
select kind, count(*), sum(price), min(since), max(price) from item group by kind;
select kind from item where price > 3 union select 'cup' from item;
update item set price = price * 2 where kind = 'tea';
select i.id, j.id from item i left join item j on i.kind = j.kind and i.id < j.id;
delete from item where id = 2;
select id, (select count(*) from item b where b.price > a.price) from item a;
/* once */ select 1 / (id - 1) from item where id = 1;
insert into item values (3, 'again', 1, null);
select distinct kind from item where since is not null or kind is null;
select $$it's$$, $tag$a $$ b$tag$, N'text', 'one'
'two', E'tab\there \x41', U&'\0041x';
select 1 as one, 'x' as two union all select null, null;
select null as a, null as b union all select 1, '2020-01-01'::date;
select id, exists (select from item other where other.kind = item.kind and other.id <> item.id) from item;
with dear as materialized (select id from item where price > 3), all_of as not materialized (select id from item)
select count(*) from dear join all_of using (id);
