-- shown
-- Numbers read and shown by templates, sign by sign.
select to_number('.-01', 'S99.99'), to_number('.01-', '99.99S'), to_number(' . 0 1-', ' 9 9 . 9 9 S'), to_number('5.01-', 'FM9.999999MI'), to_number('0.00001-', '9.999999S');
select to_number('-34,338,492.654,878', '99G999G999D999G999'), to_number('<564646.654564>', '999999.999999PR'), to_number('5 4 4 4 4 8 . 7 8', '9 9 9 9 9 9 . 9 9');
select to_number('$1,234.56', 'L99,999.99'), to_number('1234.56', 'L99,999.99'), to_number('42nd', '99th'), to_number('34,50', '999,99'), to_number('123456', '999G999');
select to_number('-12', 'S99'), to_number('12 -', '99S'), to_number('12-', '99MI'), to_number('-12', 'SG99'), to_number('+5', 'PL9'), to_number('x12', '"ab"99'), to_number('ab12', '"ab"99'), to_number('123', '9'), to_number('12.345', '99.9');
select to_char(12, '"a\"b"99'), to_char('nan'::numeric, '999.9'), to_char('inf'::numeric, '999.9'), to_char('-inf'::float8, '999.99'), to_char('nan'::float8, '9.9EEEE');
create table f (a float4, b float8);
insert into f values (1234.5678, 0.1), (0.1, 1e-10), (null, null);
select to_char(a, '9999.999999'), to_char(b, '9.99999999999999999999') from f;
insert into f values (100000000.5, 123456789012345678.5);
delete from f where a > 1000;
