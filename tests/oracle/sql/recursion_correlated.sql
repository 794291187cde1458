create table edge (a int, b int, w int);
create table ask (x int, m int);
insert into edge values (1, 2, 1), (2, 3, 1), (3, 4, 2), (5, 6, 1), (6, 5, 1), (2, 5, 9), (null, 1, 1);
insert into ask values (1, 10), (2, 2), (5, 3), (9, 1), (5, 4), (null, 2);

select x, m, (with recursive r(i, d) as (select x, 0 union all select i + 1, d + 1 from r where d < m)
    select count(*) from r) as n from ask;
select x, (with recursive r(i) as (select x union select e.b from r join edge e on e.a = r.i)
    select max(i) from r) as furthest from ask;
select x, (with recursive r(i) as (select b from edge where a = ask.x union
    select e.b from r join edge e on e.a = r.i) select string_agg(i::text, ',' order by i) from r) as all_of_them
    from ask;
select x, (with recursive r(i) as (select b from edge where a = x union select e.b from r join edge e on e.a = r.i)
    select count(*) from r p join r q on p.i <= q.i) as pairs from ask;
select x from ask where exists (with recursive r(i) as (select b from edge where a = ask.x union
    select e.b from r join edge e on e.a = r.i) select 1 from r where i = 4);
select x, i from ask, lateral (with recursive r(i) as (select b from edge where a = ask.x union
    select e.b from r join edge e on e.a = r.i) select i from r order by i desc limit 1) k;
select x, i from ask left join lateral (with recursive r(i) as (select b from edge where a = ask.x and w < m union
    select e.b from r join edge e on e.a = r.i where w < m) select i from r where i > 2) k on true;
select x, m, (with recursive r(i, w) as (select 1, 0 union select e.b, e.w from r join edge e on e.a = r.i
    where e.w < ask.m) select sum(w) from r) as weight from ask;
select x, (with recursive r(i) as (select 1 union select e.b from r join edge e on e.a = r.i
    where exists (select 1 from ask k where k.m > ask.m and k.x <> r.i)) select max(i) from r) as far from ask;
select x, (select sum((with recursive r(i) as (select ask.x + s.v union select i + 1 from r where i < s.v)
    select count(*) from r)) from (values (1), (5)) s(v)) as nested from ask;
with recursive outside(i, n) as (select 1, (with recursive r(k) as (select 1 union all select k + 1 from r where k < 3)
    select max(k) from r) union all
    select i + 1, (with recursive r(k) as (select x from ask where m = 3 union all select k + 1 from r where k < a.m)
    select max(k) from r) from outside, ask a where i < 3 and a.x = 1) select * from outside;
with base as (select x, m from ask) select x, (with recursive r(i) as (select base.m union
    select i - 1 from r where i > 0) select sum(i) from r) as triangle from base;

insert into edge values (4, 9, 1), (9, 1, 1);
insert into ask values (4, 5), (1, 10);
delete from edge where a = 2 and b = 3;
update ask set m = m + 2 where x = 5;
delete from ask where x = 1;
delete from edge;
delete from ask;
