-- Elements, slices and fields that are assigned; rows of relations as types.
create type pair as (x int, y text);
create table t (id int primary key, a int[], m int[], c pair, s text[]);
create table r (p int, q text);
create table holds (k int, w r);
select id, a, m, s, (c).x, (c).y from t;
select k, (w).p, (w).q from holds;
select id, (row(id, 'z')::r).q, null::r is null, (row(1, 'b')::pair).y from t;
insert into t values (1, '{1,2,3}', '{{1,2},{3,4}}', row(1, 'one'), '{}'), (2, null, null, null, null), (3, '{}', '{{5,6},{7,8}}', '(3,three)', '{a,b}');
insert into r values (1, 'eins'), (2, 'zwei');
insert into holds select p, r from r;
insert into holds values (3, row(3, 'drei')), (4, '(4,vier)'), (5, null);
update t set a[2] = 20 where id = 1;
update t set a[1] = id, s[1] = 'first' || id;
update t set a[5] = 50 where id in (1, 3);
update t set a[2:3] = '{7,8}', m[1][2] = 99 where id = 1;
update t set a[1:2] = array[id, id + 1, id + 2] where id = 2;
update t set c.x = 10, c.y = 'ten' where id = 1;
update t set c.y = upper((c).y) || '!' returning id, (c).x, (c).y;
update t set c.x = coalesce((c).x, 0) + 1, a[1] = a[1] + 1, s = s || 'end';
update holds set w.q = 'neu' where k < 3;
update t set a[1] = 1, a[2] = 2, a[3] = a[1] + 100;
delete from t where a[1] = 2 or id = 3;
-- what is refused
update t set a['x'] = 1;
update t set c.z = 1;
update t set id[1] = 1;
update t set m[7][7] = 1 where id = 1;
update t set a[1:3] = '{1}';
