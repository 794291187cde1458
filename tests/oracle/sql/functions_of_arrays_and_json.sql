-- Functions of arrays and JSON: searched, changed, made, joined.
create table pack (id int, tags text[], nums int[], j json, b jsonb, t timestamp, n numeric(8, 2), f double precision, o boolean);
insert into pack values
    (1, '{a,b,null,a}', '{3,1,2,3}', '{"a": 1, "b": null, "c": [1, null]}', '{"a": {"x": 1}, "l": [1, 2, 3], "n": null}', '2020-01-02 03:04:05.5', 1.50, 0.1, true),
    (2, '{}', null, '[1, "two", 3.50]', '[1, {"a": null}]', null, null, null, null), (3, null, '{7}', '"s"', '"s"', '1999-12-31', -3, 1e20, false);
select id, array_position(tags, 'a'), array_position(tags, 'b', 2), array_position(nums, 3, 2), array_position(tags, null), array_positions(nums, 3), array_positions(tags, 'zz') from pack;
select id, array_remove(tags, 'a'), array_remove(tags, null), array_replace(nums, 3, 9), array_replace(tags, null, 'n') from pack;
select id, array_to_string(tags, ','), array_to_string(tags, ',', '*'), array_to_string(nums, '') from pack;
select string_to_array('xx~~yy~~zz', '~~'), string_to_array('xx~~yy~~zz', '~~', 'yy'), string_to_array('abc', null), string_to_array('', ','), string_to_array('abc', '');
select trim_array(array[1, 2, 3, 4, 5, 6], 2), array_position(array[1.5, 2.5], 2.5), array_to_string(array[true, false, null], '|', 'x');
select id, num_nulls(tags, nums, j, t), num_nonnulls(n, f, o) from pack;
select id, to_json(tags), to_json(nums), to_json(t), to_json(n), to_json(f), to_json(o), to_json(j), to_json(id::text), to_jsonb(nums), to_jsonb(t), to_jsonb(n) from pack;
select id, json_build_array(id, tags, n, o, t), jsonb_build_array(id, 'x', null, f), json_build_object('id', id, 'n', n), jsonb_build_object('t', t, id, tags) from pack;
select json_build_object(), json_build_array(), jsonb_build_object('b', 1, 'a', 2, 'b', 3), json_object('{a, 1, b, "def", c, 3.5}'), json_object('{a, b}', '{1,2}'), jsonb_object('{x, null}');
select id, json_typeof(j), jsonb_typeof(b), json_strip_nulls(j), jsonb_strip_nulls(b), jsonb_pretty(b) from pack;
select json_array_length('[1,2,3,{"f1":1,"f2":[5,6]},4]'), jsonb_array_length('[]'), jsonb_typeof('null'), json_typeof('true');
select jsonb_set('[{"f1":1,"f2":null},2,null,3]', '{0,f1}', '[2,3,4]', false), jsonb_set('[{"f1":1,"f2":null},2]', '{0,f3}', '[2,3,4]'), jsonb_set('{"a": 1}', '{b,c}', '1'), jsonb_set('{"a": 1}', '{a}', '"x"'), jsonb_set('[1, 2]', '{-1}', '9'), jsonb_set('[1, 2]', '{9}', '9');
select jsonb_insert('{"a": [0,1,2]}', '{a, 1}', '"new_value"'), jsonb_insert('{"a": [0,1,2]}', '{a, 1}', '"new_value"', true), jsonb_insert('{"a": 1}', '{b}', '2');
select id, jsonb_set(b, '{a}', to_jsonb(id)) from pack where id = 1;
select array_to_json(array[[1, 5], [99, 100]]), array_to_json(nums) from pack;
select row_to_json(row(1, 'foo')), to_json('Fred said "Hi."'::text), to_json(date '2020-01-01');
select * from unnest(array[1, 2], array['a', 'b', 'c']) as t(n, s);
select id, x from pack, unnest(tags || 'z'::text) x;
/* once */ select json_array_length('{"a": 1}');
/* once */ select json_build_object('a');
/* once */ select json_build_object(null, 1);
/* once */ select jsonb_insert('{"a": 1}', '{a}', '2');
/* once */ select trim_array(array[1], 2);
/* once */ select array_position(1, 2);
update pack set nums = nums || 3 where id in (2, 3);
update pack set b = jsonb_set(b, '{0}', '5') where id = 2;
/* once */ select jsonb_set('1', '{a}', '2');
update pack set tags = array['q'], n = null where id = 1;
insert into pack (id, nums) values (4, '{1}'), (4, '{1}');
delete from pack where id = 4;
delete from pack;
