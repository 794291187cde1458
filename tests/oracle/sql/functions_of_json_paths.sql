create table docs (id int primary key, doc jsonb, path text);
insert into docs values
    (1, '{"a": [1, 2, 3, "x", null], "b": {"c": 5, "d": [true, {"e": "text"}]}}', '$.a[*]'),
    (2, '[{"a": 1}, {"a": [2, 3]}, {"b": 4}, 5]', '$.a'),
    (3, '{"name": "Ann", "tags": ["red", "Green"], "n": -1.50}', '$.n'),
    (4, '7', '$'),
    (5, null, '$'),
    (6, '[]', '$[*]');
select id, jsonb_path_query(doc, '$.a') from docs order by id;
select id, jsonb_path_query_array(doc, 'lax $.a[*] ? (@ > 1)') from docs order by id;
select id, jsonb_path_query_array(doc, '$.**') from docs order by id;
select id, jsonb_path_query_array(doc, '$.**{1}') from docs order by id;
select id, jsonb_path_query_array(doc, '$.**{1 to 2}.e') from docs order by id;
select id, jsonb_path_query_array(doc, '$.**{last}') from docs order by id;
select id, jsonb_path_query_array(doc, '$.**{2 to last}') from docs order by id;
select id, jsonb_path_query_first(doc, '$.a[last]') from docs order by id;
select id, jsonb_path_query_array(doc, '$.a[0, 2 to last]') from docs order by id;
select id, jsonb_path_query_array(doc, '$.a[last - 1]') from docs order by id;
select id, jsonb_path_query_array(doc, '$.*.type()') from docs order by id;
select id, jsonb_path_query_array(doc, '$.size()') from docs order by id;
select id, jsonb_path_query_array(doc, '$.a.size()') from docs order by id;
select id, jsonb_path_query_array(doc, '$.tags[*] ? (@ starts with "r" || @ like_regex "^g" flag "i")') from docs order by id;
select id, jsonb_path_exists(doc, '$.b.d[*] ? (exists (@.e))') from docs order by id;
select id, jsonb_path_match(doc, 'exists($.a)') from docs order by id;
select id, doc @? '$.a[*] ? (@ == 2)', doc @@ '$.n < 0' from docs order by id;
select id from docs where doc @? '$.a' order by id;
select id, jsonb_path_query_array(doc, '$.n.abs() * 2 + 1') from docs where id = 3;
select id, jsonb_path_query_array(doc, '$.n.ceiling()'), jsonb_path_query_array(doc, '$.n.floor()') from docs where id = 3;
select id, jsonb_path_query_array(doc, '-$.n / 4'), jsonb_path_query_array(doc, '7 % $.n') from docs where id = 3;
select id, jsonb_path_query_array(doc, '$[*] ? (@.a == $x).a', '{"x": 1}') from docs where id = 2;
select id, jsonb_path_query_array(doc, 'strict $.a', '{}', true) from docs order by id;
select id, jsonb_path_query_array(doc, '$ ? (@.a > 1 && !(@.b == 4) || (@.z > 1) is unknown)') from docs order by id;
select d.id, q from docs d, jsonb_path_query(d.doc, '$.a[*]') q where q <> '2' order by 1, 2;
select d.id, q.n, q.o from docs d, jsonb_path_query(d.doc, '$.a[*]') with ordinality q(n, o) order by 1, 3;
select jsonb_path_query('{"a": 1, "b": [2]}', '$.keyvalue()');
select jsonb_path_query('"12.5"', '$.double()'), jsonb_path_query('[1, "2", null]', '$[*] == null');
select jsonb_path_query_array('[1, "1", true, null, [1], {}]', '$[*] ? (@ == 1)'), jsonb_path_query_array('[1, "a", null]', '$[*] ? (@ != 1)');
select jsonb_path_query_array('["a", "b", "ab"]', '$[*] ? (@ >= "ab")'), jsonb_path_query_array('[false, true]', '$[*] ? (@ > false)');
select '$.a'::jsonpath, 'strict $.a[*] ? (@.b > 1 && @.c starts with "x")'::jsonpath, '$.a + 1 * 2'::jsonpath, '($.a + 1) * 2'::jsonpath;
select '$ ? (!(@.a == 1) || exists (@.b[1 to last]))'::jsonpath, '$.**{2 to 3}.x.size()'::jsonpath, '-$.a[0, 1 to 2]'::jsonpath, '$"v w".*'::jsonpath;
select '$.a like_regex "^x" flag "i"'::jsonpath, '($.a > 1) is unknown'::jsonpath, 'lax 1.50 == $.x'::jsonpath, '"a\"b"'::jsonpath;
/* once */ select jsonb_path_query('{"a": 1}', 'strict $.b');
/* once */ select jsonb_path_query('[1]', 'strict $.b');
/* once */ select jsonb_path_query('[1]', 'strict $[1]');
/* once */ select jsonb_path_query('{"a": 1}', '$.a +');
/* once */ select jsonb_path_query('{"a": 1}', '$.a / 0');
/* once */ select jsonb_path_query('{"a": "x"}', '$.a + 1');
/* once */ select jsonb_path_query('{"a": "x"}', '$.a.abs()');
/* once */ select jsonb_path_query('{"a": "x"}', '@.a');
/* once */ select jsonb_path_query('{"a": "x"}', '$ ? (@.a)');
/* once */ select jsonb_path_query('{"a": "x"}', '$x');
/* once */ select jsonb_path_match('{"a": "x"}', '$.a');
/* once */ select jsonb_path_exists('{"a": "x"}', '$.a', '[]');
/* once */ select jsonb_path_query('1', 'last');
/* once */ select jsonb_path_query('1', '');
insert into docs values (7, '{"a": {"a": {"a": 1}}, "tags": "rr"}', '$.a.a'), (8, '[[1, [2]], {"a": []}]', '$[0][1]');
update docs set doc = '{"a": 2, "n": -3}' where id in (3, 5);
update docs set path = '$.**.a' where id = 1;
delete from docs where id = 2;
