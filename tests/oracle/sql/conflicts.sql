-- ON CONFLICT whose SET and WHERE ask queries.
create table u (id int primary key, name varchar(10) unique, n int);
create table log (k int, w int);
select * from u;
select n, count(*) from u group by n;
insert into log values (1, 100), (2, 200), (5, null);
insert into u values (1, 'a', 1), (2, 'b', 2);
insert into u values (1, 'x', 5), (3, 'c', 3) on conflict (id) do update set n = excluded.n + (select max(n) from u);
insert into u values (2, 'y', 5) on conflict (id) do update set (name, n) = (select 'y' || u.name, w from log where k = excluded.id) returning *;
insert into u values (1, 'q', 7), (2, 'q2', 8), (3, 'q3', 9) on conflict (id) do update set n = excluded.n where exists (select 1 from log where k = u.id) returning id, n;
insert into u (id, name, n) values (9, 'c', 4) on conflict (name) do update set n = coalesce((select sum(w) from log where w > excluded.n), 0)::int;
insert into u select k, 'new', w from log on conflict (id) do update set n = u.n + (select count(*) from log l where l.k <= excluded.id) where u.n not in (select w from log where w is not null);
insert into u values (1, 'z', 0) on conflict (id) do update set n = (select n from u u2 where u2.id = 3);
