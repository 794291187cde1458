-- shown
select scale('NaN'::numeric), scale('Infinity'::numeric), scale(1.500);
select ('[1,2]'::jsonb)['1'], ('{"a":[1,{"b":2}]}'::jsonb)['a'][1]['b'], ('{"1":5}'::jsonb)['1'];
select to_char(interval '-3 months', 'RM'), to_char(interval '-14 months', 'RM rm'), to_char(interval '12 months', 'RM'), to_char(interval '-12 months', 'RM'), to_char(interval '0 months', 'RM'), to_char(interval '5 months', 'FMRM'), to_char(interval '-11 months', 'RM'), to_char(date '2020-03-01', 'RM');
select extract(epoch from date '2020-01-01'), extract(julian from date '2020-01-01');
create table dd(d date, t timestamp);
insert into dd values ('2020-02-03', '2020-02-03 10:00'), (null, null);
select extract(epoch from d), extract(epoch from t), extract(julian from d) from dd;
select date_part('epoch', d), date_part('julian', d), date_part('epoch', t) from dd;
update dd set d = d + 1;
