import java.sql.*;
import java.util.*;

/** What the driver tells of a database: every method of its metadata, one printed line for each row. */
public class Metadata {
    interface Asking { ResultSet ask() throws SQLException; }

    static DatabaseMetaData data;

    /** The columns of an answer with their types, then its rows, in order of their texts. */
    static void print(String what, Asking asking) {
        System.out.println("## " + what);
        try (ResultSet found = asking.ask()) {
            ResultSetMetaData shape = found.getMetaData();
            StringBuilder head = new StringBuilder("#");
            for (int i = 1; i <= shape.getColumnCount(); i++)
                head.append(' ').append(shape.getColumnLabel(i)).append(':').append(shape.getColumnTypeName(i));
            System.out.println(head);
            List<String> rows = new ArrayList<>();
            while (found.next()) {
                StringBuilder row = new StringBuilder();
                for (int i = 1; i <= shape.getColumnCount(); i++)
                    row.append(i > 1 ? "|" : "").append(found.getString(i));
                rows.add(row.toString().replace("\n", "\\n"));
            }
            Collections.sort(rows);
            rows.forEach(System.out::println);
        } catch (SQLException error) {
            System.out.println("error " + error.getSQLState() + " " + error.getMessage().split("\n")[0]);
        }
    }

    /** What is told of the columns of a query. */
    static void describe(Connection db, String query) {
        System.out.println("## " + query);
        try (Statement one = db.createStatement(); ResultSet found = one.executeQuery(query)) {
            ResultSetMetaData shape = found.getMetaData();
            for (int i = 1; i <= shape.getColumnCount(); i++)
                System.out.println(String.join("|", shape.getColumnLabel(i), shape.getColumnName(i),
                        shape.getTableName(i), shape.getSchemaName(i), shape.getColumnTypeName(i),
                        "" + shape.getColumnType(i), shape.getColumnClassName(i), "" + shape.getPrecision(i),
                        "" + shape.getScale(i), "" + shape.getColumnDisplaySize(i), "" + shape.isNullable(i),
                        "" + shape.isAutoIncrement(i), "" + shape.isSigned(i), "" + shape.isCaseSensitive(i)));
        } catch (SQLException error) {
            System.out.println("error " + error.getSQLState() + " " + error.getMessage().split("\n")[0]);
        }
    }

    /** What is told of the parameters of a statement. */
    static void parameters(Connection db, String text) {
        System.out.println("## " + text);
        try (PreparedStatement one = db.prepareStatement(text)) {
            ParameterMetaData shape = one.getParameterMetaData();
            for (int i = 1; i <= shape.getParameterCount(); i++)
                System.out.println(shape.getParameterTypeName(i) + "|" + shape.getParameterType(i) + "|"
                        + shape.getParameterClassName(i) + "|" + shape.isSigned(i));
        } catch (SQLException error) {
            System.out.println("error " + error.getSQLState() + " " + error.getMessage().split("\n")[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        Connection db = DriverManager.getConnection(args[0], args[1], "");
        data = db.getMetaData();
        for (String schema : new String[] {"public", "other", "%"}) {
            for (String name : new String[] {"pet", "owner", "visit", "light", "heavy", "%"}) {
                String where = " " + schema + "." + name;
                if (schema.equals("%") && name.equals("%")) continue;
                print("getTables" + where, () -> data.getTables(null, schema, name, null));
                print("getColumns" + where, () -> data.getColumns(null, schema, name, "%"));
                print("getTablePrivileges" + where, () -> data.getTablePrivileges(null, schema, name));
                print("getSuperTables" + where, () -> data.getSuperTables(null, schema, name));
                print("getPseudoColumns" + where, () -> data.getPseudoColumns(null, schema, name, "%"));
                if (schema.equals("%") || name.equals("%")) continue;
                print("getPrimaryKeys" + where, () -> data.getPrimaryKeys(null, schema, name));
                print("getImportedKeys" + where, () -> data.getImportedKeys(null, schema, name));
                print("getExportedKeys" + where, () -> data.getExportedKeys(null, schema, name));
                print("getIndexInfo" + where, () -> data.getIndexInfo(null, schema, name, false, true));
                print("getIndexInfo unique" + where, () -> data.getIndexInfo(null, schema, name, true, true));
                print("getColumnPrivileges" + where, () -> data.getColumnPrivileges(null, schema, name, "%"));
                print("getBestRowIdentifier" + where, () -> data.getBestRowIdentifier(null, schema, name,
                        DatabaseMetaData.bestRowSession, false));
                print("getVersionColumns" + where, () -> data.getVersionColumns(null, schema, name));
            }
            print("getProcedures " + schema, () -> data.getProcedures(null, schema.equals("%") ? "public" : schema, "%"));
            print("getProcedureColumns " + schema, () -> data.getProcedureColumns(null, schema.equals("%") ? "public" : schema, "%", "%"));
            print("getFunctions " + schema, () -> data.getFunctions(null, schema.equals("%") ? "public" : schema, "%"));
            print("getFunctionColumns " + schema, () -> data.getFunctionColumns(null, schema.equals("%") ? "public" : schema, "%", "%"));
            print("getUDTs " + schema, () -> data.getUDTs(null, schema, "%", null));
            print("getAttributes " + schema, () -> data.getAttributes(null, schema, "%", "%"));
            print("getSuperTypes " + schema, () -> data.getSuperTypes(null, schema, "%"));
        }
        for (String[] kinds : new String[][] {{"TABLE"}, {"VIEW"}, {"MATERIALIZED VIEW"}, {"SEQUENCE"}, {"INDEX"},
                {"PARTITIONED TABLE"}, {"TYPE"}, {"TABLE", "VIEW"}, {"SYSTEM TABLE"}, {"SYSTEM VIEW"}})
            print("getTables of " + String.join(" ", kinds), () -> data.getTables(null, kinds[0].startsWith("SYS")
                    ? "information_schema" : "public", "%", kinds));
        print("getCrossReference", () -> data.getCrossReference(null, "public", "owner", null, "public", "pet"));
        print("getSchemas", () -> data.getSchemas());
        print("getSchemas of", () -> data.getSchemas(null, "pub%"));
        print("getCatalogs", () -> data.getCatalogs());
        print("getTableTypes", () -> data.getTableTypes());
        print("getTypeInfo", () -> data.getTypeInfo());
        print("getClientInfoProperties", () -> data.getClientInfoProperties());
        System.out.println("## words");
        System.out.println(data.getStringFunctions());
        System.out.println(data.getDatabaseMajorVersion() + " " + data.getDatabaseProductName() + " "
                + data.getMaxColumnNameLength() + " " + data.getMaxColumnsInIndex() + " "
                + data.getDefaultTransactionIsolation() + " " + data.storesLowerCaseIdentifiers() + " "
                + data.supportsTransactions() + " " + data.getIdentifierQuoteString() + " " + data.isReadOnly());
        System.out.println(data.getSQLKeywords());
        for (String query : Files.lines(args[2], "describe")) describe(db, query);
        for (String text : Files.lines(args[2], "parameters")) parameters(db, text);
        db.close();
    }

    static class Files {
        /** The lines of a file that follow a heading, to the next one. */
        static List<String> lines(String path, String heading) throws java.io.IOException {
            List<String> found = new ArrayList<>();
            boolean within = false;
            for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of(path))) {
                if (line.startsWith("-- ")) within = line.equals("-- " + heading);
                else if (within && !line.isBlank()) found.add(line);
            }
            return found;
        }
    }
}
