-- Floats as text.
create table floats (id int, r real, d double precision);
insert into floats values (1, 1004.3, 1004.3), (2, 0, 0), (3, 'inf', '-inf'), (4, 'nan', 'nan'), (5, null, null);
insert into floats values (6, 1e20, 1e20), (7, 1e-5, 1e-5), (8, 0.1, 0.1), (9, 100000, 100000000000000);
insert into floats values (10, 1000000, 1000000000000000), (11, 123456.7, 123456789012345680), (12, -2.5, -2.5);
insert into floats values (13, 1.17549435e-38, 2.2250738585072014e-308), (14, 3.4028235e38, 1.7976931348623157e308);
insert into floats values (15, 0.0001, 0.0001), (16, 0.00012345, 0.000012345), (17, 16777216, 9007199254740993);
select id, r::text, d::text, r || '', concat(d, '!'), cast(r as varchar(4)) from floats order by id;
select id, (d / 3)::text, (r * 2)::text from floats where abs(d) < 1e300;
select string_agg(d::text, ' ') from floats where id < 3;
select (0.1::float8 + 0.2::float8)::text, 1e15::float8::text, 1e14::float8::text, 'Infinity'::float8::text;
update floats set d = d * 10 where id < 3;
delete from floats where id = 6;
