-- shown
-- Texts of booleans, floats and JSON, and functions that take arguments by name.
select 'of'::bool, 'tru'::bool, ' fal '::bool, 'ye'::bool;
/* once */ select '1e-400'::float8;
/* once */ select '10e-70'::float4;
/* once */ select '1_000'::float8;
select '0x1p3'::float8, 'infinity'::float8, '-Inf'::float4, ' nan '::float4, '5e-324'::float8, '1e-45'::float4, '0e-500'::float8, '.0'::float4, '1.'::float8;
select ' { } '::json, '  [1] '::json::text;
select array_to_json(array[1, 2], true), array_to_json(array[[1, 2], [3, 4]], true), array_to_json('{}'::int[], true), array_to_json(array['a'], false), row_to_json(row(1, 'a'), true);
select jsonb_insert('[1]', '{0}', '0', insert_after => true), jsonb_set('{"a":1}', '{b}', '2', create_if_missing => false), parse_ident('foo.boo[]', strict => false);
select jsonb_path_query_array('[1,2]', '$[*]', silent => true), jsonb_path_exists('[1]', '$[0] ? (@ == $x)', vars => '{"x":1}');
select sqrt(1.000000000000003), sqrt(96627521408608.56340355805), sqrt(0.0001), sqrt(1e-30), sqrt(8015491789940783531003294973900306::numeric), exp(-6001.0);
/* once */ select exp(6000.0);
select not not true;
select abbrev('10.1.0.0/16'::cidr), abbrev('10.1.2.0/24'::cidr), abbrev('10.1.2.3/32'::cidr), abbrev('0.0.0.0/0'::cidr), abbrev('10.128.0.0/9'::cidr), abbrev('10.1.0.0/16'::inet), abbrev('10.1.2.3'::inet), abbrev('::1/128'::cidr), abbrev('2001:db8::/32'::cidr), abbrev('1.2.3.4/24');
select set_masklen('192.168.1.0/24'::cidr, 16), set_masklen('192.168.1.5/24'::inet, -1), set_masklen('192.168.1.5/24', 8);
create table given (t text, f text, a int[]);
insert into given values ('fals', '.5', '{1,2}'), ('on', '1e3', null), (null, null, '{}');
select t::bool, f::float4, array_to_json(a, true), row_to_json(given, true) from given;
insert into given values ('tr', '-0x10', '{{3}}'), ('no', '+inf', '{4}');
update given set t = 'of' where t = 'on';
delete from given where f = '.5';
