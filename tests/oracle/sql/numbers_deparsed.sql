-- shown
-- Numbers in defaults and checks, as the catalogs print them.
create table dd (a float8 default 1e5, b int check (b < 1e5), c numeric default 99999999999999999999, d numeric default 123456789012345678901.5, e numeric check (e < 99999999999999999999), f float8 default -1.50e-3, g int default 0x1F, h bigint default 3000000000, i bigint default -3000000000, j numeric default -5, k numeric default -99999999999999999999);
/* once */ select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'dd'::regclass order by adnum;
/* once */ select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'dd'::regclass order by 1;
/* once */ select column_name, column_default from information_schema.columns where table_name = 'dd' order by column_name;
