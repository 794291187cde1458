-- shown
select to_timestamp('1997 BC 11 16', 'YYYY BC MM DD')::text, to_date('-44-02-01','YYYY-MM-DD')::text, to_date('2-1-2 BC', 'YYYY-MM-DD BC')::text, to_date('44-02-01 BC','YYYY-MM-DD BC')::text, to_timestamp('12:30','HH24:MI')::text, to_date('2458872', 'J')::text, to_date('2024 060','YYYY DDD')::text, to_date('2005527', 'IYYYIWID')::text, to_date('1','Q')::text, to_date('0005-02-29 BC', 'YYYY-MM-DD BC')::text, to_date('0001-12-31 BC', 'YYYY-MM-DD BC')::text;
select to_timestamp('97/Feb/16', 'YY:Mon:DD')::text, to_timestamp('2005426', 'YYYYWWD')::text, to_timestamp('2005300', 'YYYYDDD')::text, to_timestamp('9-1116', 'Y-MMDD')::text;
select to_timestamp('005527', 'IYYIWID')::text, to_timestamp('05527', 'IYIWID')::text, to_timestamp('5527', 'IIWID')::text, to_timestamp('2005364', 'IYYYIDDD')::text;
select to_timestamp('2000January09Sunday', 'YYYYFMMonthDDFMDay')::text, to_timestamp('05121445482000', 'MMDDHH24MISSYYYY')::text;
select to_timestamp('0097/Feb/16 --> 08:14:30', 'YYYY/Mon/DD --> HH:MI:SS')::text, to_timestamp('1,582nd VIII 21', 'Y,YYYth FMRM DD')::text, to_timestamp('15 "text between quote marks" 98 54 45', 'HH24 "\"text between quote marks\"" YY MI SS')::text;
select to_timestamp('2000+   JUN', 'YYYY/MON')::text, to_timestamp('  2000 +JUN', 'YYYY/MON')::text, to_timestamp('2000 ++ JUN', 'YYYY  MON')::text, to_timestamp('2000  +JUN', 'YYYY//MON')::text;
select to_date('2011 12  18', 'YYYY MM   DD')::text, to_date('2011   12 18', 'YYYY  MM DD')::text, to_date('2011x 12x 18', 'YYYYxMMxDD')::text;
select to_timestamp('2011-12-18 11:38 -05', 'YYYY-MM-DD HH12:MI TZH')::text, to_timestamp('2011-12-18 11:38 +05:20', 'YYYY-MM-DD HH12:MI TZH:TZM')::text, to_timestamp('2011-12-18 11:38 20', 'YYYY-MM-DD HH12:MI TZM')::text;
/* once */ select to_date('2023-02-29', 'YYYY-MM-DD');
/* once */ select to_timestamp('2000--JUN', 'YYYY/MON');
