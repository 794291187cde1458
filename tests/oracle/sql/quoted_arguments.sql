-- Quoted strings as arguments of functions that take no texts: their type is found from the others.
select abs('-5'), sign('-2.5'), make_date('2020', 1, 31), make_date('2020', '2', '29'), mod('7', 4);
select array_append('{1,2}', 3), array_append('{1}', 2::bigint), array_cat('{1,2}', array[3]), array_remove('{1,2,1}', 1);
select array_append('{a,b}', 'c'::text), array_position('{x,y}', 'y'::text);
/* once */ select abs('five');
/* once */ select make_date('2020', 'x', 1);
/* once */ select array_append('{1', 2);
/* once */ select i from generate_series(1, 9) as x(i) order by i limit 1 + 1 offset 2 * 2;
/* once */ select i from generate_series(1, 3) as x(i) order by i limit null + 1;
