-- All statements of PL/pgSQL: loops, errors and their words, rows, arguments of all modes, CALL and DO.
create table t (id int primary key, v text, n numeric);
insert into t values (1,'a',1.5),(2,'b',2.5),(3,'c',null);
create function f1(x int) returns text language plpgsql as $$
declare r record; out text := ''; i int;
begin
  for i in 1..3 loop out := out || i; end loop;
  for i in reverse 3..1 loop out := out || i; end loop;
  for i in 1..10 by 3 loop out := out || i || ','; end loop;
  <<outer>>
  for i in 1..3 loop
    for j in 1..3 loop
      continue outer when j = 2;
      exit outer when i = 3;
      out := out || '(' || i || j || ')';
    end loop;
  end loop;
  i := 0;
  loop i := i + 1; exit when i > x; end loop;
  while i > 0 loop i := i - 1; end loop;
  return out || i;
end $$;
/* once */ select f1(4);
create function f2(arr int[]) returns int language plpgsql as $$
declare s int := 0; e int;
begin
  foreach e in array arr loop s := s + coalesce(e, 100); end loop;
  return s;
end $$;
/* once */ select f2(array[1,2,null,4]), f2('{}');
create function f3(arr int[]) returns text language plpgsql as $$
declare s text := ''; e int[];
begin
  foreach e slice 1 in array arr loop s := s || e::text || ';'; end loop;
  return s;
end $$;
/* once */ select f3(array[[1,2],[3,4]]);
create function f4(i int) returns text language plpgsql as $$
begin
  case i when 1, 2 then return 'low'; when 3 then return 'three'; else return 'high'; end case;
end $$;
/* once */ select f4(1), f4(3), f4(9);
create function f5(i int) returns text language plpgsql as $$
begin
  case when i < 0 then return 'neg'; when i = 0 then return 'zero'; end case;
  return 'never';
end $$;
/* once */ select f5(-1);
/* once */ select f5(5);
/* once */ select f6(10,2), f6(1,0);
create function f7() returns text language plpgsql as $$
declare st text; m text; d text; h text;
begin
  begin
    raise exception 'custom %', 42 using errcode = 'AB123', detail = 'the detail', hint = 'the hint';
  exception when sqlstate 'AB123' then
    get stacked diagnostics st = returned_sqlstate, m = message_text, d = pg_exception_detail, h = pg_exception_hint;
  end;
  return st || '|' || m || '|' || d || '|' || h;
end $$;
/* once */ select f7();
create function f8() returns setof t language plpgsql as $$
begin
  return query select * from t where id < 3 order by id;
  return query execute 'select * from t where id = $1' using 3;
  return;
end $$;
/* once */ select * from f8();
create function f9(lim int) returns table (k int, w text) language plpgsql as $$
begin
  for k, w in select id, v from t order by id loop
    if k > lim then return; end if;
    return next;
  end loop;
end $$;
/* once */ select * from f9(2);
create function f10(out a int, out b text, inout c int) language plpgsql as $$
begin a := c * 2; b := 'got ' || c; c := c + 1; end $$;
/* once */ select * from f10(5);
create function f11(variadic xs int[]) returns int language plpgsql as $$ begin return (select sum(x) from unnest(xs) x); end $$;
/* once */ select f11(1,2,3), f11(variadic array[4,5]);
create function f12(x int) returns int language plpgsql as $$
declare n t.n%type; r t%rowtype; c int;
begin
  select * into strict r from t where id = x;
  get diagnostics c = row_count;
  n := r.n;
  return c;
exception
  when no_data_found then return -1;
  when too_many_rows then return -2;
end $$;
/* once */ select f12(1), f12(99);
create function f13() returns text language plpgsql as $$
declare x int; y text;
begin
  select id, v into x, y from t where id = 777;
  if not found then return 'not found ' || coalesce(x::text, 'null'); end if;
  return y;
end $$;
/* once */ select f13();
create function f14(tab text) returns bigint language plpgsql as $$
declare c bigint;
begin
  execute format('select count(*) from %I where id > $1', tab) into c using 1;
  return c;
end $$;
/* once */ select f14('t');
/* once */ select f14('nosuch');
create function f15() returns int language plpgsql as $$
begin
  assert 1 = 1, 'fine';
  assert (select count(*) from t) > 100, 'too few rows';
  return 1;
end $$;
/* once */ select f15();
create function f16(n int) returns int language plpgsql as $$
begin if n <= 1 then return 1; end if; return n * f16(n - 1); end $$;
/* once */ select f16(10);
create function f18() returns int language plpgsql as $$
declare b int not null := 3;
begin b := null; return b; end $$;
/* once */ select f18();
create function f21() returns int language plpgsql as $$
declare x int;
begin
  update t set n = coalesce(n, 0) + 1 where id < 3;
  get diagnostics x = row_count;
  return x;
end $$;
/* once */ select f21();
/* once */ select * from t order by id;
create function f22() returns int language plpgsql as $$
begin
  insert into t values (10, 'in', 1);
  begin
    insert into t values (11, 'inner', 1);
    insert into t values (10, 'dup', 1);
  exception when unique_violation then
    insert into t values (12, 'handler', 1);
  end;
  return (select count(*) from t);
end $$;
/* once */ select f22();
/* once */ select id from t order by id;
create procedure p1(a int, inout b int) language plpgsql as $$ begin b := a + b; end $$;
call p1(1, 2);
call p1(1, b => 5);
/* once */ select p1(1,2);
call f1(1);
do $$ declare x int := 0; begin for i in 1..3 loop x := x + i; end loop; insert into t values (100 + x, 'do', 0); end $$;
/* once */ select id from t where id > 100;
do $$ begin raise exception 'x' using errcode = 'unique_violation'; end $$;
do $$ begin raise division_by_zero; end $$;
do $$ begin raise sqlstate '22012'; end $$;
do $$ begin raise exception using message = 'only message', detail = 'd'; end $$;
do $$ begin raise exception 'too % many', 1, 2; end $$;
do $$ begin raise exception 'too few % %', 1; end $$;
do $$ begin raise; end $$;
do $$ begin return 5; end $$;
do $$ declare x int; begin x := 'abc'; end $$;
do $$ declare x int; begin y := 1; end $$;
do $$ begin select 1; end $$;
do $$ begin commit; end $$;
create function bad1() returns int language plpgsql as $$ begin if 1 = 1 then return 1; end $$;
create function bad2() returns int language plpgsql as $$ begin retrun 1; end $$;
create function bad3() returns int language plpgsql as $$ begin null; end $$;
/* once */ select bad3();
create function bad4() returns int language plpgsql as $$ begin return 'x'; end $$;
/* once */ select bad4();
create function amb(id int) returns text language plpgsql as $$ begin return (select v from t where t.id = amb.id); end $$;
/* once */ select amb(1);
create function amb3(id int) returns text language plpgsql as $$
#variable_conflict use_variable
begin return (select count(*)::text from t where id = amb3.id); end $$;
/* once */ select amb3(1);
create function lab() returns text language plpgsql as $$
<<blk>>
declare x int := 1;
begin
  declare x int := 2;
  begin
    return blk.x || ' ' || x;
  end;
end $$;
/* once */ select lab();
create function recs() returns text language plpgsql as $$
declare r record; s text := '';
begin
  for r in select id, v from t order by id limit 2 loop s := s || r.id || r.v; end loop;
  select 1 as one, 'two' as two into r;
  s := s || r.one || r.two;
  r.two := 'changed';
  return s || r.two || (r is null)::text;
end $$;
/* once */ select recs();
create function arr() returns int[] language plpgsql as $$
declare a int[] := '{}'; 
begin
  for i in 1..3 loop a[i] := i * i; end loop;
  a := a || 100;
  a[2] := 0;
  return a;
end $$;
/* once */ select arr(), array_length(arr(), 1);
create type pt as (x int, y int);
create function mk(a int) returns pt language plpgsql as $$ declare p pt; begin p.x := a; p.y := a * 2; return p; end $$;
/* once */ select * from mk(4);
create function mks() returns setof pt language plpgsql as $$ begin return next row(1,2)::pt; return next mk(9); end $$;
/* once */ select * from mks();
create function ex() returns int language plpgsql as $$ begin execute 'create table dyn (a int)'; execute 'insert into dyn values (1),(2)'; return (select count(*) from dyn); end $$;
/* once */ select ex();
create function poly(a anyelement, b anyelement) returns anyelement language plpgsql as $$ begin return case when a > b then a else b end; end $$;
/* once */ select poly(1, 2), poly('a'::text, 'b'::text);
create function dft(a int, b int default 10, c text default 'x') returns text language plpgsql as $$ begin return a || c || b; end $$;
/* once */ select dft(1), dft(1, 2), dft(1, c => 'q'), dft(b => 5, a => 6);
/* once */ select dft();
create function st(a int) returns int strict language plpgsql as $$ begin return 1; end $$;
/* once */ select st(null), st(1);
create function nullret() returns int language plpgsql as $$ begin return null; end $$;
/* once */ select nullret();
create or replace function f16(n int) returns bigint language plpgsql as $$ begin return 1; end $$;
drop function f16;
drop function f16(int);
create function ov(a int) returns text language sql as 'select ''int''';
create function ov(a text) returns text language sql as 'select ''text''';
create function ov(a int, b int) returns text language sql as 'select ''two''';
/* once */ select ov(1), ov('x'::text), ov('x'), ov(1,2);
drop function ov;
drop function ov(int), ov(text);
/* once */ select ov(1,2);
drop function ov;
drop function nosuch();
drop function if exists nosuch(int);
/* once */ select proname, prokind, pronargs, proretset from pg_proc where proname in ('f8','p1','f11') order by 1;
/* once */ select dropme.* from (select 1) dropme;
create function exc() returns text language plpgsql as $$
begin
  perform 1/0;
  return 'no';
exception when others then
  return sqlstate || ' ' || sqlerrm;
end $$;
create function exc2() returns text language plpgsql as $$
begin
  insert into t values (1, 'dup', 0);
  return 'no';
exception when unique_violation then
  return sqlstate || ' ' || sqlerrm;
end $$;
/* once */ select exc2();
create function exc3() returns text language plpgsql as $$
begin
  perform * from no_such_table;
  return 'no';
exception when undefined_table then
  return sqlstate || ' ' || sqlerrm;
end $$;
/* once */ select exc3();
create function exc4() returns text language plpgsql as $$
begin
  return 'abc'::int;
exception when invalid_text_representation or division_by_zero then
  return sqlstate || ' ' || sqlerrm;
end $$;
/* once */ select exc4();
create function exc5() returns text language plpgsql as $$
declare c text; tn text; cn text;
begin
  insert into t values (1, 'dup', 0);
exception when others then
  get stacked diagnostics c = constraint_name, tn = table_name, cn = column_name;
  return c || ' ' || tn || ' ' || cn;
end $$;
/* once */ select exc5();
create function strict2() returns int language plpgsql as $$ declare x int; begin select id into strict x from t; return x; end $$;
/* once */ select strict2();
create function strict3() returns int language plpgsql as $$ declare x int; begin select id into strict x from t where id = -1; return x; end $$;
/* once */ select strict3();
create function txf() returns int language plpgsql as $$ begin commit; return 1; end $$;
/* once */ select txf();
create procedure txp() language plpgsql as $$ begin insert into t values (500,'c',0); commit; insert into t values (501,'r',0); rollback; end $$;
call txp();
/* once */ select id from t where id >= 500;
begin;
call txp();
rollback;
