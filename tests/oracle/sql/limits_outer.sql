-- shown
-- LIMIT and OFFSET by a column of the query around.
create table t (n int);
create table s (k int, v int);
insert into t values (1), (2), (null), (0);
insert into s values (1, 10), (1, 20), (1, 30), (2, 5), (2, 5), (2, 7), (null, 1);
select n, (select sum(x) from (select g as x from generate_series(1, 5) g order by g desc limit t.n) q) from t;
select n, (select g from generate_series(1, 5) g order by g desc limit 1 offset t.n) from t;
select n, x.g from t, lateral (select g from generate_series(1, 5) g order by g desc limit t.n) x;
select n, x.v from t left join lateral (select v from s where s.k = t.n order by v limit t.n offset greatest(t.n - 1, 0)) x on true;
select n, x.v from t cross join lateral (select v from s order by v fetch first (t.n + 1) rows with ties) x;
select n, exists (select 1 from s limit t.n) from t;
select n, array(select v from s where k is not null order by v, k limit t.n) from t;
select n, (select count(*) from s limit t.n) from t;
select n from t where n in (select k from s order by v limit t.n + 1);
select n, (select string_agg(q.a::text, ',' order by q.a) from (select 1 union all select 2 union all select 3 order by 1 limit t.n) q(a)) from t;
/* once */ select n from t limit t.n;
/* once */ select n from t limit n;
/* once */ select n, (select v from s limit t.n::text) from t;
/* once */ select n, (select v from s limit sum(t.n)) from t;
insert into s values (1, 4), (2, 3);
insert into t values (3);
delete from s where v = 5;
update t set n = 2 where n = 0;
