-- Sums, means and spreads of NUMERICs of any size.
create table n (g int, x numeric);
insert into n values (1, 1.5), (1, 2.25), (1, 1000000000000000000000), (1, 1000000000000000000001), (2, 0.1), (2, 0.1), (2, null), (3, null), (4, 'NaN'), (4, 1);
select g, sum(x), avg(x), count(x), min(x), max(x) from n group by g;
select g, variance(x), var_pop(x), stddev(x), stddev_pop(x) from n group by g;
select sum(distinct x), avg(distinct x), variance(distinct x) from n where g < 4;
select g, percentile_disc(0.5) within group (order by x), mode() within group (order by x) from n group by g;
select sum(x) filter (where g = 1), stddev(x) filter (where g = 2) from n;
select array_agg(x order by x desc) from n;
insert into n values (2, 1e30), (3, 12345678901234567890.123456789), (3, -0.5);
delete from n where x > 1e20;
update n set x = x * 3 where g = 2;
delete from n where g = 4;
delete from n;
