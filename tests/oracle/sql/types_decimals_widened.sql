-- shown
-- Sums and products of DECIMALs that a word cannot hold are NUMERICs.
create table amounts (id int, d numeric(18, 2), e decimal(18, 0), f numeric(10, 2));
insert into amounts values (1, 9999999999999999.99, 999999999999999999, 1.50), (2, 9999999999999999.99, 999999999999999999, 2), (3, 0.01, 1, null);
/* once */ select sum(d), sum(e), avg(d), count(d) from amounts;
/* once */ select d + d, e * e, d * d, -d, e - 1, e + e, d * 1000000000 from amounts;
/* once */ select sum(d * e) from amounts;
/* once */ select id, sum(d) over (order by id) from amounts order by id;
/* once */ select f, sum(d) from amounts group by f having sum(d) > 5 order by f;
/* once */ select a.id from amounts a join amounts b on a.d + b.d > 10000000000000000 order by 1;
/* once */ create table copied as select id, d * 1000 as t from amounts;
/* once */ select * from copied;
/* once */ insert into copied select id, d * 2000 from amounts;
/* once */ update copied set t = (select sum(d) * 1000 from amounts) where id = 1;
/* once */ select * from copied;
/* once */ delete from copied where t + (select sum(e * d) from amounts) > 0 and id = 3;
/* once */ select count(*) from copied;
select sum(f), sum(f * 2) from amounts;
