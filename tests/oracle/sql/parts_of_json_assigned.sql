-- SET of members of JSONB.
create table js (id int primary key, j jsonb);
insert into js values (1, '{"a": 1, "b": [1,2]}'), (2, null), (3, '[]'), (4, '"text"'), (5, '{"a": {"b": {}}}');
select id, j, j['a'], j['b'][0] from js order by id;
update js set j['a'] = '5', j['z'] = '[1]' where id = 1;
update js set j['b'][1] = '"x"' where id = 1;
update js set j['n']['m'] = 'true' where id = 2;
update js set j[2] = '1' where id = 3;
update js set j[-1] = '{"q": 1}' where id = 3;
update js set j['a'][2] = null where id = 5;
update js set j['a']['b']['c'][0] = to_jsonb(id) where id = 5;
