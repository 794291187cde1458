do $$ begin raise notice 'hi'; end $$;
create function sales_tax(subtotal real) returns real as $$ declare t real; begin t := subtotal * 0.06; return t; end; $$ language plpgsql;
select sales_tax(100);
create function fact(n int) returns bigint language plpgsql as $$ begin if n <= 1 then return 1; end if; return n * fact(n - 1); end $$;
select fact(10), fact(5);
create table t (a int, b text);
insert into t values (1, 'x'), (2, 'y'), (3, null);
select a, fact(a % 10) from t;
create function total() returns bigint language plpgsql as $$ declare s bigint := 0; r record; begin for r in select * from t loop s := s + r.a; end loop; return s; end $$;
/* once */ select total();
/* once */ select a, total() from t;
create function rows_of(k int) returns setof t language plpgsql as $$ begin return query select * from t where a >= k; return next row(99, 'z')::t; return; end $$;
/* once */ select * from rows_of(2);
create procedure addone(x int) language plpgsql as $$ begin insert into t values (x, 'p'); end $$;
call addone(50);
/* once */ select * from t;
create function outs(a int, out b int, out c text) language plpgsql as $$ begin b := a + 1; c := 'n' || a; end $$;
/* once */ select * from outs(4);
create function ins(x int) returns int language sql as $$ insert into t values (x, 'sql') returning a $$;
/* once */ select ins(77);
/* once */ select * from t order by a;
create function catches(x int) returns text language plpgsql as $$ begin return (10 / x)::text; exception when division_by_zero then return sqlerrm || sqlstate; end $$;
/* once */ select catches(2), length(catches(0)) > 5;
do $$ declare i int; begin for i in 1..5 loop insert into t values (100 + i, 'loop'); end loop; begin insert into t values (1000); raise exception 'no'; exception when others then null; end; end $$;
/* once */ select * from t order by a;
create function grade(points int) returns text immutable language plpgsql as $$
declare
  limits int[] := array[90, 80, 70];
  letters constant text := 'ABC';
  i int := 0;
  l int;
begin
  foreach l in array limits loop
    i := i + 1;
    if points >= l then
      return substr(letters, i, 1);
    end if;
  end loop;
  return 'F';
end $$;
select a, grade(a * 20) from t;
select grade(a * 30), count(*) from t group by grade(a * 30);
create function collatz(n bigint) returns int language plpgsql strict as $$
declare steps int := 0;
begin
  while n <> 1 loop
    steps := steps + 1;
    case when n % 2 = 0 then n := n / 2; else n := 3 * n + 1; end case;
    exit when steps > 200;
  end loop;
  return steps;
end $$;
select a, collatz(a) from t where a > 0;
create function split_sum(s text, out total int, out parts int) language plpgsql as $$
declare p text;
begin
  total := 0; parts := 0;
  foreach p in array string_to_array(s, ',') loop
    total := total + p::int; parts := parts + 1;
  end loop;
end $$;
select x.total, x.parts from split_sum('1,2,3') x;
create function evens(low int, high int) returns setof int language plpgsql as $$
begin
  for i in low..high loop continue when i % 2 = 1; return next i; end loop;
end $$;
select * from evens(1, 9) e;
select t.a, e from t, lateral evens(1, t.a) e where t.a < 5;
create function pair_of(n int) returns table (x int, y text) language plpgsql as $$
begin
  for i in 1..n loop x := i; y := repeat('*', i); return next; end loop;
end $$;
select * from pair_of(3) order by x desc;
insert into t values (4, 'four'), (-1, null);
update t set a = a + 1 where b = 'y';
delete from t where a > 70;
create function found_or(k int) returns text language plpgsql as $$
declare v text; n int;
begin
  select b into v from t where a = k;
  if not found then return 'none'; end if;
  get diagnostics n = row_count;
  return coalesce(v, 'null') || n;
end $$;
/* once */ select found_or(1), found_or(12345);
create function strictly(k int) returns text language plpgsql as $$
declare r t%rowtype; x t.a%type;
begin
  select * into strict r from t where a = k;
  x := r.a * 2;
  r.b := r.b || x;
  return r.b;
exception
  when no_data_found then return 'no data';
  when too_many_rows then return 'too many';
end $$;
/* once */ select strictly(1), strictly(999);
create function dyn(tab text, k int) returns bigint language plpgsql as $$
declare n bigint;
begin
  execute format('select count(*) from %I where a > $1', tab) into n using k;
  return n;
end $$;
/* once */ select dyn('t', 1);
create procedure swap(inout x int, inout y int) language plpgsql as $$ declare z int := x; begin x := y; y := z; end $$;
call swap(1, 2);
do $$
declare p int := 5; q int := 6; c cursor (k int) for select a from t where a > k order by a; v int; s int := 0;
begin
  call swap(p, q);
  open c(1);
  loop fetch c into v; exit when not found; s := s + v; end loop;
  close c;
  for v in select a from t loop s := s + v; end loop;
  insert into t values (p * 10 + q, 'swapped ' || s);
end $$;
/* once */ select * from t order by a;
do $$
begin
  raise exception 'wrong %', 5 using errcode = '22012', hint = 'think';
exception when division_by_zero then
  insert into t values (5000, sqlerrm);
end $$;
/* once */ select * from t order by a;
drop procedure swap;
drop function dyn(text, int);
