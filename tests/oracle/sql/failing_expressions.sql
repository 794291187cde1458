-- What may fail is evaluated for the rows that need it.
create table words (id int primary key, b text, kind text);
create table numbers (k int, b int);
create table facts (k int, ok boolean, x int);
create table keys (a int primary key);
insert into words values (1, '1', 'int'), (2, 'x', 'text'), (3, '7', 'int'), (4, null, 'int');
insert into facts values (1, false, 5), (2, true, 6), (2, true, 7), (4, true, 5), (9, null, null);
insert into keys values (0), (1), (2), (5), (7);
insert into numbers values (1, 0), (2, 2), (3, 0), (4, 4), (null, null);
create view integers as select id, cast(b as int) as c from words where kind = 'int';
create view quotients as select k, 4 / b as c from numbers where b <> 0;
select * from keys join (select cast(b as int) as c from words where b <> 'x') q on q.c = keys.a;
select * from keys join integers on integers.c = keys.a;
with q as (select id, cast(b as int) as c from words where kind = 'int') select * from q join keys on c = a;
select a from keys where a in (select 1 / b from numbers where b <> 0);
select a from keys where a not in (select 4 / b from numbers where b <> 0);
select a from keys where a in (select c from quotients);
select a from keys where (a, 2) in (select c, k from quotients);
select keys.a, q.c from keys left join quotients q on q.c = keys.a;
select q.c, f.x from (select n.k, 12 / n.b as c from numbers n join facts f on n.k = f.k where f.ok) q
  join facts f on f.x = q.c;
select k, case when b <> 0 then (select 10 / b) when b = 0 then (select max(x) from facts f where f.k = n.k) end
  from numbers n;
select k, case when b = 2 then -1 else (select x from facts f where f.k = n.k) end from numbers n;
select k, case when b > 0 then exists (select 1 from facts where 10 / n.b = x) end from numbers n;
select k, case when b > 0 then 5 in (select x / n.b from facts) end from numbers n;
select k, case k when 2 then (select 4 / b) else (select 0 / k) end from numbers;
select k, coalesce(b, (select 1 / b)) from numbers;
select k, coalesce(nullif(b, 0), (select count(*) / (4 - n.k) from facts)) from numbers n;
select k from numbers where b = 0 or (select 4 / b) = 2;
select k from numbers where b <> 0 and (select 4 / b) = 2;
select k, b = 0 or (select 4 / b) = 2 from numbers;
select case when exists (select 1 from numbers where b > 100)
  then (select max(k) / count(*) from numbers where b > 100) else -1 end;
select 4 / b from numbers n where not exists (select 1 from facts f where f.k = n.k and not ok) and k <> 3;
select c from (select k, 4 / b as c from numbers) q
  where not exists (select 1 from facts f where f.k = q.k and not ok) and k <> 3;
select 8 / n.b, f.x from numbers n left join facts f on f.k = n.k where f.ok;
select 8 / n.b from numbers n left join facts f on f.k = n.k and not f.ok where f.k is null and n.k > 1 and n.k <> 3;
select k from numbers where null <> b / 0;
select k, null + 1 / b from numbers;
select w.id from words w, keys k where (k.a = 1 and w.kind = 'int' and cast(w.b as int) = 1)
  or (k.a = 2 and w.kind = 'text' and w.b = 'x');
insert into words values (5, 'x', 'text'), (6, '5', 'int');
insert into facts values (3, false, 1), (5, true, 2);
insert into numbers values (5, 5), (6, 1);
update words set kind = 'text', b = 'x' where id = 3;
update facts set ok = not ok where k = 4;
delete from facts where k = 2 and x = 7;
delete from numbers where k = 1;
delete from words where id = 1;
delete from keys where a = 7;
