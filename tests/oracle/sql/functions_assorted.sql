-- shown
-- Functions of several chapters, scales below zero and above the precision, moments by name.
create table f (id int primary key, j jsonb, t text, n numeric(5,-2), s numeric(3,5));
insert into f values (1, '{"a":{"b":[1,2]}}', 'a', 12345, 0.00123), (2, null, null, null, null), (3, '[1]', 'Foo.bar', -151, 0.009994);
select * from f;
select id, jsonb_extract_path(j, 'a', 'b'), jsonb_extract_path_text(j, 'a', 'b', '1'), json_extract_path('{"a":{"b":1}}', 'a', 'b'), json_extract_path_text('{"a":{"b":1}}','a','b') from f;
select array_fill(id, array[2,2]), array_fill(t, array[1]), array_fill(7, '{}'::int[]), parse_ident('"A b".c'), parse_ident('foo.bar.baz'), pg_size_bytes('1.5 GB'), pg_size_bytes('10') from f;
select jsonb_set_lax(j, '{a}', null), jsonb_set_lax(j, '{a}', null, true, 'delete_key'), jsonb_set_lax(j, '{x}', '1'), jsonb_set_lax(j, '{a}', null, true, 'return_target') from f where id = 1;
select 12345.678::numeric(7,-2), 149::numeric(3,-2), n + 1, s * 2 from f;
/* once */ select 'now'::timestamp = localtimestamp, 'today'::date = current_date, timestamptz 'tomorrow' = current_date + 1, 'yesterday'::timestamp = current_date - 1;
/* once */ select 1::numeric(3,5);
/* once */ insert into f (id, n) values (9, 12345678);
/* once */ select parse_ident('a.b c');
select (id between 1 and 3) between true and true from f;
insert into f values (4, '{"a":1}', 'zz', 49, 0);
update f set n = n * 2 where id = 1;
delete from f where id = 3;
