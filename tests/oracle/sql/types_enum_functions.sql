-- shown
-- Functions of ENUMs.
create type mood as enum ('sad', 'ok', 'happy');
create table en (m mood, id int);
insert into en values ('ok', 1), (null, 2), ('happy', 3);
select enum_first(m), enum_last(m), enum_range(m), enum_range(m, 'happy'), enum_range('sad', m), id from en;
/* once */ select enum_range(null::mood), enum_range(null, 'ok'::mood), enum_first(null::mood);
delete from en where id = 1;
