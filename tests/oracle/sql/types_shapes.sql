-- shown
-- Points, lines, segments, boxes, paths, polygons and circles: in tables, operators, functions, casts.
create table shapes (id int primary key, p point, l line, s lseg, b box, h path, g polygon, c circle);
insert into shapes values
  (1, '(1,2)', '{1,-1,0}', '[(0,0),(2,2)]', '(3,3),(1,1)', '[(0,0),(1,1),(2,0)]', '((0,0),(4,0),(4,4))', '<(1,1),2>'),
  (2, '( -3 , 4.5 )', '(0,0),(0,1)', '(1,2),(3,4)', '((0,5),(2,1))', '((0,0),(1,1),(2,0))', '1,1,2,1,2,2', '((5,5),0.5)'),
  (3, point(5.1, 34.5), line(point '(0,3)', point '(1,4)'), lseg(point '(3,0)', point '(3,9)'), box(point '(9,9)', point '(7,8)'),
   path '[(1,2),(3,4)]', polygon(circle '<(0,0),1>'), circle(point '(3,0)', 2)),
  (4, null, null, null, null, null, null, null);
select id, p, l, s, b, h, g, c from shapes order by id;
select id, p::text || ' ' || c::text, array[p, p], array[b] from shapes order by id;
select x.id, y.id, x.p <-> y.p, x.p << y.p, x.p |>> y.p, x.p ~= y.p, x.p + y.p, x.p * y.p, x.p <> y.p from shapes x, shapes y order by 1, 2;
select x.id, y.id, x.b && y.b, x.b @> y.b, x.b <-> y.b, x.b # y.b, x.b = y.b, x.b < y.b, x.b &<| y.b, x.b >^ y.b from shapes x, shapes y order by 1, 2;
select x.id, y.id, x.s ?# y.s, x.s # y.s, x.s ?|| y.s, x.s ?-| y.s, x.s <-> y.s, x.s ## y.s, x.s = y.s, x.s < y.s from shapes x, shapes y order by 1, 2;
select x.id, y.id, x.c && y.c, x.c @> y.p, y.p <@ x.c, x.c <-> y.c, x.c * y.p, x.c ~= y.c from shapes x, shapes y order by 1, 2;
select x.id, y.id, x.g && y.g, x.g @> y.p, x.g <-> y.p, x.h <-> y.h, x.h ?# y.h, x.h + y.h, x.p <@ y.h from shapes x, shapes y order by 1, 2;
select id, area(b), area(h), area(c), center(b), diagonal(b), diameter(c), height(b), width(b), radius(c), npoints(h), npoints(g) from shapes order by id;
select id, isopen(h), isclosed(h), popen(h), pclose(h), length(s), length(h), @-@ s, @@ c, # h, ?- s, ?| l, slope(s[0], s[1]) from shapes order by id;
select id, p[0], p[1], p[2], b[0], s[1], l[2] from shapes order by id;
select id, point(b), point(c), point(s), point(g), box(c), box(g), box(p), circle(b), circle(g), lseg(b), path(g), polygon(b), polygon(5, c) from shapes order by id;
select b::circle, b::polygon, c::box, g::path, g::circle::point, p::box from shapes order by id;
select count(*), count(p), max(p <-> point '(0,0)'), min(area(c)) from shapes;
select a.id, b.id from shapes a join shapes b on a.p <@ b.c order by 1, 2;
select id from shapes order by p <-> point '(0,0)', id;
select id from shapes where b = box '(4,2),(2,0)' or c <= circle '<(0,0),1>' order by id;
select id, coalesce(p, point '(0,0)'), case when id > 2 then c else '<(0,0),1>' end, nullif(id, 1) from shapes order by id;
/* once */ select p from shapes order by p;
/* once */ select distinct p from shapes;
/* once */ select p, count(*) from shapes group by p;
/* once */ select p = p from shapes;
/* once */ select '(1,2'::point;
/* once */ select '<(1,2),-3>'::circle;
/* once */ select circle '<(0,0),0>'::polygon;
/* once */ select point '(1,2)' / point '(0,0)';
/* once */ select polygon(path '[(0,0),(1,1)]');
insert into shapes (id, p, c) values (5, '(0,0)', '<(0,0),10>');
update shapes set p = p + point '(1,1)', b = b * point '(2,0)' where id < 3;
delete from shapes where id = 2;
update shapes set c = null, g = '((1,1),(5,1),(5,5),(1,5))' where id = 1;
insert into shapes (id, s) values (6, '[(0,0),(0,0)]');
delete from shapes where p <-> point '(0,0)' > 30;
