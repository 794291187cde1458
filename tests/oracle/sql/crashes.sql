-- What once ended in an error of Python's, or in a wrong answer.
create table pairs (a int, b int);
insert into pairs values (1, 2), (2, 3), (2, null), (null, 1);
select v.* from (pairs x left join (select a, coalesce(b, 0) as b from pairs) y on x.b = y.a)
  left join pairs z on z.a = x.b, lateral (select x.a, y.a union all select x.b, y.b) v (p, q);
select x.a, v.p from pairs x left join (select a, coalesce(b, 0) as b from pairs) y on x.b = y.a,
  lateral (select y.b) v (p);
select 0x1F + 0o17 + 0b101 + 1_000, -(-9223372036854775805 - 1) from pairs where a = 1;
with recursive t (n) as (values (1) union all (with q as (select * from t)
  select n + 1 from q where n < 3 union all select n + 10 from q where n < 3)) select * from t;
insert into pairs values (3, 2), (3, 3);
delete from pairs where a = 2;
update pairs set b = 1 where a is null;
select distinct a, 'x' as b, 'x' as c from pairs order by b, a limit 3;
select distinct on (b) a, 'x' as b from pairs order by b, a;
