create type part as (d int, e text);
create type whole as (a int, b text[], c part, j json);
create table t (id int, j jsonb, k json);
select id, q.a, q.b, q.c::text, q.j::text from t, jsonb_populate_record(null::whole, j) q;
select id, q.a, q.b, q.c::text, q.j::text from t, json_populate_record(row(7, null, null, null)::whole, k) q;
select id, (jsonb_populate_record(null::whole, j)).a, jsonb_populate_record(null::part, j -> 'c')::text from t;
select id, q.* from t, jsonb_populate_recordset(null::part, case when jsonb_typeof(j -> 'l') = 'array' then j -> 'l' end) q;
select id, jsonb_populate_recordset(null::part, j -> 'l')::text from t where id < 3;
select id, x.a, x.b, x.c::text from t, json_to_record(k) as x(a int, b text, c part);
select sum(q.a), count(*) from t, jsonb_populate_record(null::whole, j) q;
insert into t values
    (1, '{"a": 1, "b": ["2", "a b", null], "c": {"d": 4, "e": "x"}, "l": [{"d": 1}, {"e": "q"}]}', '{"a":1,"b":[1,2],"c":{"d":5}, "j": {"z":1}}'),
    (2, null, null), (3, '{}', '{}'), (4, '{"a": "12", "l": 5}', '{"b": null}');
update t set j = '{"c": {"e": 7}, "l": [{"d": 2, "e": "w"}]}' where id = 1;
delete from t where id = 3;
/* once */ select * from jsonb_populate_record(null::whole, '[1]');
/* once */ select * from jsonb_populate_recordset(null::part, '{"a": 1}');
select sum(x), avg(x), sum(x) filter (where id > 1) from (select id, time '10:00' + id * interval '1 hour' as x from t) q;
