-- Orders by several texts that agree on more bytes than their order words hold.
create table w (id int primary key, kind text, name text, n int);
insert into w select i, case when i % 3 = 0 then repeat('k', 40) || i % 2 else 'kind' || i % 2 end, repeat('a,', 10) || repeat('b,', i) || 'b', i % 4 from generate_series(1, 12) i;
insert into w values (20, null, repeat('a,', 10), null), (21, repeat('k', 40), null, 1), (22, null, null, 1);
select * from (select id, 'abc' c, name from w order by c, name desc nulls last limit 3) q;
select * from (select id, kind, name from w order by kind, name desc limit 4) q;
select * from (select id, kind, name from w order by kind desc nulls last, name limit 4) q;
select * from (select id, kind, name from w order by n, kind, name desc limit 5) q;
select * from (select id, kind, name from w order by kind, n desc, name desc nulls last, id limit 5 offset 2) q;
select * from (select id, row_number() over (partition by n order by kind, name desc) r, lag(id) over (order by kind, name, id) from w) q where r <= 2;
select id, rank() over (order by kind, name), sum(n) over (order by 'abc'::text, kind desc, name range between unbounded preceding and current row) from w;
select distinct on (n) n, id, kind, name from w order by n, kind, name desc, id;
select n, string_agg(name, '|' order by kind desc, name desc), min(name), max(kind) from w group by n;
insert into w select i, 'kind' || i % 2, repeat('a,', 10) || repeat('b,', i), i % 4 from generate_series(30, 34) i;
update w set name = name || 'c' where id % 3 = 1;
update w set kind = repeat('k', 40) || '5' where id < 6;
delete from w where id % 4 = 2;
update w set kind = 'kind', name = repeat('x', id) where id > 3;
delete from w;
