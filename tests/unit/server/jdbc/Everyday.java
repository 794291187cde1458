import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;

/** What programs do with JDBC every day, one printed line for each answer. */
public class Everyday {
    static Connection db;

    static void show(String what, Object value) {
        System.out.println(what + ": " + value);
    }

    static List<String> rows(ResultSet found, String... columns) throws SQLException {
        List<String> all = new ArrayList<>();
        while (found.next()) {
            List<String> row = new ArrayList<>();
            for (String column : columns) row.add(String.valueOf(found.getString(column)));
            all.add(String.join(" ", row));
        }
        return all;
    }

    public static void main(String[] args) throws Exception {
        db = DriverManager.getConnection(args[0], "kpg", "");
        try (Statement one = db.createStatement()) {
            one.execute("create table owner (id int primary key, name varchar(20) not null)");
            one.execute("create table pet (id bigserial primary key, owner int references owner on delete cascade,"
                    + " weight numeric(10,2), born date, seen timestamp, at timestamptz, alarm time, tags text[], alive boolean)");
            one.execute("create index by_owner on pet (owner)");
            one.execute("create materialized view pets as select owner, count(*) as n from pet group by owner");
            one.execute("create view light as select * from pet where weight < 5");
        }
        prepared();
        batches();
        times();
        pages();
        transactions();
        metadata();
        errors();
        db.close();
    }

    static void prepared() throws SQLException {
        try (PreparedStatement one = db.prepareStatement("insert into owner (id, name) values (?, ?)")) {
            for (int i = 1; i <= 8; i++) {
                one.setInt(1, i);
                one.setString(2, "name " + i);
                one.executeUpdate();
            }
        }
        try (PreparedStatement one = db.prepareStatement("select name from owner where id = ?")) {
            List<String> found = new ArrayList<>();
            for (int i = 1; i <= 8; i++) {
                one.setInt(1, i);
                try (ResultSet rows = one.executeQuery()) {
                    rows.next();
                    found.add(rows.getString(1));
                }
            }
            show("prepared", found);
        }
        String insert = "insert into pet (owner, weight, tags, alive) values (?, ?, ?, ?)";
        try (PreparedStatement one = db.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
            one.setInt(1, 1);
            one.setBigDecimal(2, new BigDecimal("3.50"));
            one.setArray(3, db.createArrayOf("text", new String[] {"a", null, "b,c"}));
            one.setBoolean(4, true);
            one.executeUpdate();
            try (ResultSet keys = one.getGeneratedKeys()) {
                keys.next();
                show("generated", keys.getLong("id"));
            }
        }
        try (ResultSet rows = db.createStatement().executeQuery("select * from light")) {
            rows.next();
            show("values", rows.getBigDecimal("weight") + " " + Arrays.toString((Object[]) rows.getArray("tags").getArray())
                    + " " + rows.getBoolean("alive") + " " + rows.getObject("born") + " " + rows.wasNull());
        }
    }

    static void batches() throws SQLException {
        try (PreparedStatement one = db.prepareStatement("insert into pet (owner, weight) values (?, ?)")) {
            for (int i = 0; i < 300; i++) {
                one.setInt(1, 1 + i % 8);
                one.setDouble(2, i);
                one.addBatch();
            }
            show("batch", Arrays.stream(one.executeBatch()).sum());
        }
        try (ResultSet rows = db.createStatement().executeQuery("select * from pets order by owner")) {
            show("view", rows(rows, "owner", "n"));
        }
        try (PreparedStatement one = db.prepareStatement("delete from pet where weight = ? and id > ?")) {
            one.setDouble(1, 5);
            one.setLong(2, 1);
            show("deleted", one.executeUpdate());
        }
    }

    static void times() throws SQLException {
        OffsetDateTime at = OffsetDateTime.of(2024, 5, 6, 7, 8, 9, 123000000, ZoneOffset.UTC);
        try (PreparedStatement one = db.prepareStatement("update pet set born = ?, seen = ?, at = ?, alarm = ? where id = 1")) {
            one.setObject(1, LocalDate.of(1999, 12, 31));
            one.setObject(2, LocalDateTime.of(2020, 2, 29, 23, 59, 59));
            one.setObject(3, at);
            one.setObject(4, LocalTime.of(6, 30));
            show("updated", one.executeUpdate());
        }
        for (int round = 0; round < 7; round++) {  // from the fifth on in binary form
            try (PreparedStatement one = db.prepareStatement("select born, seen, at, alarm from pet where at = ? and id = 1")) {
                one.setObject(1, at);
                try (ResultSet rows = one.executeQuery()) {
                    rows.next();
                    String found = rows.getObject(1, LocalDate.class) + " " + rows.getObject(2, LocalDateTime.class) + " "
                            + rows.getObject(3, OffsetDateTime.class) + " " + rows.getObject(4, LocalTime.class);
                    if (round == 0 || round == 6) show("times", found);
                }
            }
        }
    }

    static void pages() throws SQLException {
        db.setAutoCommit(false);
        try (PreparedStatement one = db.prepareStatement("select i, i * 2.5 from generate_series(1, 1000) g(i) order by i")) {
            one.setFetchSize(64);
            long sum = 0;
            int count = 0;
            try (ResultSet rows = one.executeQuery()) {
                while (rows.next()) {
                    sum += rows.getInt(1);
                    if (count++ == 100) {
                        try (ResultSet other = db.createStatement().executeQuery("select count(*) from owner")) {
                            other.next();
                            show("meanwhile", other.getInt(1));
                        }
                    }
                }
            }
            show("pages", count + " " + sum);
        }
        db.commit();
        db.setAutoCommit(true);
    }

    static void transactions() throws SQLException {
        db.setAutoCommit(false);
        db.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        try (Statement one = db.createStatement()) {
            one.executeUpdate("insert into owner values (100, 'x')");
            Savepoint point = db.setSavepoint("here");
            one.executeUpdate("insert into owner values (101, 'y')");
            db.rollback(point);
            db.commit();
            one.executeUpdate("delete from owner where id = 100");
            db.rollback();
            try (ResultSet rows = one.executeQuery("select id from owner where id >= 100")) {
                show("transaction", rows(rows, "id"));
            }
            db.commit();
        }
        db.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        db.setAutoCommit(true);
        show("valid", db.isValid(5));
    }

    static void metadata() throws SQLException {
        DatabaseMetaData about = db.getMetaData();
        show("product", about.getDatabaseProductName());
        show("schemas", rows(about.getSchemas(), "TABLE_SCHEM"));
        show("tables", rows(about.getTables(null, "public", "%", new String[] {"TABLE", "VIEW", "MATERIALIZED VIEW"}),
                "TABLE_NAME", "TABLE_TYPE"));
        show("columns", rows(about.getColumns(null, "public", "pet", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE",
                "NULLABLE", "ORDINAL_POSITION", "IS_AUTOINCREMENT"));
        show("keys", rows(about.getPrimaryKeys(null, "public", "pet"), "COLUMN_NAME", "PK_NAME", "KEY_SEQ"));
        show("indexes", rows(about.getIndexInfo(null, "public", "pet", false, false), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME"));
        show("imported", rows(about.getImportedKeys(null, "public", "pet"), "PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_NAME",
                "FKCOLUMN_NAME", "DELETE_RULE"));
        show("exported", rows(about.getExportedKeys(null, "public", "owner"), "FKTABLE_NAME", "FKCOLUMN_NAME"));
        show("types", rows(about.getTypeInfo(), "TYPE_NAME").contains("int4"));
        try (PreparedStatement one = db.prepareStatement("select id, name as label from owner where id > ?")) {
            ResultSetMetaData columns = one.getMetaData();
            show("described", columns.getColumnName(2) + " " + columns.getColumnTypeName(2) + " " + columns.getPrecision(2)
                    + " " + one.getParameterMetaData().getParameterTypeName(1));
        }
        about.getFunctions(null, null, "abs").close();
        about.getProcedures(null, null, "%").close();
        about.getUDTs(null, null, "%", null).close();
        about.getTablePrivileges(null, "public", "pet").close();
        about.getColumnPrivileges(null, "public", "pet", "%").close();
        about.getCatalogs().close();
        about.getTableTypes().close();
        about.getBestRowIdentifier(null, "public", "pet", 1, true).close();
        about.getCrossReference(null, "public", "owner", null, "public", "pet").close();
    }

    static void errors() throws SQLException {
        for (String text : new String[] {"selec 1", "insert into owner values (1, 'again')", "select * from nowhere"}) {
            try (Statement one = db.createStatement()) {
                one.execute(text);
            } catch (SQLException error) {
                show("error", error.getSQLState());
            }
        }
        try (Statement one = db.createStatement()) {
            one.setQueryTimeout(1);
            one.execute("with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n");
        } catch (SQLException error) {
            show("timeout", error.getSQLState());
        }
    }
}
