create table emp (name text primary key, salary int, touched int default 0);
create table log (n serial, what text);
create table sums (k text primary key, total bigint);
insert into sums values ('all', 0);
create function stamp() returns trigger language plpgsql as $$
begin
  if new.salary is null then raise exception '% has no salary', new.name; end if;
  if new.salary < 0 then return null; end if;
  new.touched := new.touched + 1;
  return new;
end $$;
create trigger stamp before insert or update on emp for each row execute function stamp();
create function note() returns trigger language plpgsql as $$
begin
  insert into log (what) values (tg_op || ' ' || tg_name || ' ' || tg_when || ' ' || tg_level || ' ' || tg_table_name || ' ' ||
    coalesce(old.name, '-') || ' ' || coalesce(new.name, '-'));
  if tg_op = 'DELETE' then update sums set total = total - old.salary; return old; end if;
  if tg_op = 'UPDATE' then update sums set total = total + new.salary - old.salary; else update sums set total = total + new.salary; end if;
  return null;
end $$;
create trigger note after insert or update or delete on emp for each row execute procedure note();
create function whole() returns trigger language plpgsql as $$ begin insert into log (what) values (tg_op || ' of all ' || tg_argv[0]); return null; end $$;
create trigger whole after update on emp for each statement execute function whole('x');
create trigger raised after update of salary on emp for each row when (new.salary > 2 * old.salary) execute function note();
insert into emp values ('ann', 10), ('bob', 20), ('neg', -1);
select * from emp;
select what from log order by n;
select * from sums;
update emp set salary = salary * 3 where name = 'ann';
update emp set name = 'rob' where name = 'bob';
insert into emp values ('nil', null);
delete from emp where name = 'rob';
insert into emp values ('ann', 7) on conflict (name) do update set salary = excluded.salary returning name, salary, touched;
update emp set salary = salary + 1 returning *;
drop trigger note on emp;
insert into emp values ('cat', 5);
create function seen() returns trigger language plpgsql as $$
begin insert into log (what) select 'new ' || name || ' ' || salary from fresh order by 1; return null; end $$;
create trigger seen after insert on emp referencing new table as fresh for each statement execute function seen();
insert into emp values ('dan', 6), ('eve', 7);
create view cheap as select name, salary * 2 as twice from emp where salary < 100;
create function into_cheap() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then insert into emp values (new.name, new.twice / 2); return new; end if;
  if tg_op = 'UPDATE' then update emp set salary = new.twice / 2 where name = old.name; return new; end if;
  delete from emp where name = old.name; return old;
end $$;
create trigger into_cheap instead of insert or update or delete on cheap for each row execute function into_cheap();
insert into cheap values ('fay', 40);
update cheap set twice = twice + 2 where name = 'fay';
delete from cheap where name = 'dan';
delete from emp where name in ('eve', 'cat');
delete from emp;
truncate log;
