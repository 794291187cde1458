-- Functions of a NULL that nothing gives a type.
create table n (id int, a int[]);
insert into n values (1, '{1}'), (2, null);
select abs(null), length(null), upper(null), ceil(null), sqrt(null);
select array_append(null, 1), array_append(null, 'a'::text), array_prepend(1, null), array_cat(null, array[1]);
select id, array_append(a, null), array_prepend(null, a), power(id, null), substr('abc', null) from n;
select pg_size_pretty(10::bigint), pg_size_pretty(10239::bigint), pg_size_pretty(10240::bigint), pg_size_pretty(123456789::bigint), pg_size_pretty(-20000::bigint), pg_size_pretty(53687091200.7), pg_size_pretty(9223372036854775807);
insert into n values (3, '{}');
delete from n where id = 1;
