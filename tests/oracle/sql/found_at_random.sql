-- What random queries and histories found: each was wrong, refused or crashed once.
create table t (a int, b text);
create table u (x int, b text);
insert into t values (1, 'a,b'), (2, null), (2, '3');
insert into u values (1, 'u'), (5, 'v');
with recursive w (a, b) as (select a, b from t union select w.a + 1, w.b from w, (select 1 as one from t order by 1 limit 2) l where w.a < 4) select * from w;
with recursive w (a, b) as (select a, b from t union select w.a + 1, w.b from w, (select 1 as one from t order by 1 limit 2) l where w.a < 4) select 1 from w where a = 2;
select x.a, y.b, z.x from t x, t y right join u z on y.a = z.x;
select starts_with(r.c0, 'b') from (select 'ab' c0) r cross join t cross join string_to_table(r.c0, ',') where t.a > t.a;
select r.b, f from t r cross join u cross join string_to_table(r.b, ',') f where u.x >= 5 and r.a < u.x;
/* once */ select a.a from t a, t b join t c on a.a = c.a;
/* once */ select x.a from t x right join lateral (select x.a) y on true;
/* once */ select x.a from t x full join generate_series(1, x.a) y on true;
/* once */ select x.a from t x, u y left join t z on x.a = z.a;
select x.a, y from t x left join generate_series(1, x.a) y on true;
select x.a, w.k from t x, u y full join lateral (select x.a + 1 k) w on w.k = y.x;
insert into t values (4, 'c,d');
update u set x = x - 1;
delete from t where a = 2;
