create table t (a int primary key, b int);
create table log (n serial, what text);
create function counted() returns trigger language plpgsql as $$
begin
  insert into log (what) values (tg_op || ' sees ' || (select count(*) from t) || ' sum ' || (select coalesce(sum(b), 0) from t));
  if tg_op = 'DELETE' then return old; end if;
  return new;
end $$;
create trigger counted before insert or update or delete on t for each row execute function counted();
create function after_row() returns trigger language plpgsql as $$
begin insert into log (what) values ('after ' || tg_op || ' ' || coalesce(new.a, old.a)); return null; end $$;
create trigger after_row after insert or update or delete on t for each row execute function after_row();
create function whole() returns trigger language plpgsql as $$
begin insert into log (what) values (tg_when || ' ' || tg_op || ' ' || tg_table_name); return null; end $$;
create trigger whole before insert or update or delete on t execute function whole();
create trigger whole_after after insert or update or delete on t execute function whole();
insert into t values (1, 10), (2, 20), (3, 30);
update t set b = b + 1 returning *;
delete from t where a < 3 returning a;
select what from log order by n;
insert into t values (3, 1), (4, 2) on conflict (a) do update set b = excluded.b + 100 returning *;
insert into t select 9, 9 where false;
update t set b = 0 where a = 77;
merge into t using (values (3, 5), (8, 8)) v (a, b) on v.a = t.a when matched then update set b = v.b when not matched then insert values (v.a, v.b);
select * from t order by a;
alter table t disable trigger after_row;
insert into t values (20, 20);
alter table t disable trigger all;
insert into t values (21, 21);
alter table t enable trigger whole;
update t set b = 22 where a = 21;
alter table t enable trigger all;
alter table t enable always trigger counted;
insert into t values (22, 22);
alter table t disable trigger nosuch;
select what from log order by n;
create view v as select a, b from t where b > 0;
insert into v values (30, 30);
update v set b = 31 where a = 30;
delete from v where a = 30;
select what from log order by n;
create table par (k int primary key);
create table child (k int references par on delete cascade on update cascade, note text);
create table child2 (k int references par on delete set null);
create function told() returns trigger language plpgsql as $$
begin
  insert into log (what) values (tg_table_name || ' ' || tg_when || ' ' || tg_op || ' ' || coalesce(old.k::text, '-') || ' ' || coalesce(new.k::text, '-'));
  if tg_op = 'DELETE' then return old; end if;
  return new;
end $$;
create trigger told before update or delete on child for each row execute function told();
create trigger told_after after update or delete on child for each row execute function told();
create trigger told2 after update on child2 for each row execute function told();
create trigger told_par after update or delete on par for each row execute function told();
insert into par values (1), (2), (3);
insert into child values (1, 'x'), (2, 'y'), (2, 'z');
insert into child2 values (1), (2);
update par set k = 10 where k = 2;
delete from par where k = 1;
select * from child;
select * from child2;
select what from log where what like '%par %' or what like 'child%' order by n;
insert into par values (50);
insert into par values (51);
