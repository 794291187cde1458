import java.sql.*;

/** Cached statements whose columns another connection changes, and calls with OUT parameters. */
public class Cached {
    static Connection db;
    static Connection other;

    /** Runs a query as often as it takes the driver to prepare it on the server, and prints the last answer. */
    static void ask(String what) throws SQLException {
        String row = "";
        for (int i = 0; i < 7; i++) {
            try (PreparedStatement one = db.prepareStatement("select * from cached"); ResultSet found = one.executeQuery()) {
                found.next();
                row = "";
                for (int k = 1; k <= found.getMetaData().getColumnCount(); k++) row += " " + found.getString(k);
            }
        }
        System.out.println(what + ":" + row);
    }

    static void change(String text) throws SQLException {
        try (Statement one = other.createStatement()) {
            one.execute(text);
        }
    }

    public static void main(String[] args) throws Exception {
        db = DriverManager.getConnection(args[0], "kpg", "");
        other = DriverManager.getConnection(args[0], "kpg", "");
        change("create table cached (a int, b text); insert into cached values (1, 'x')");
        ask("first");
        change("alter table cached add column c int default 7");
        ask("added");
        change("alter table cached drop column b");
        ask("dropped");
        change("alter table cached alter column a type bigint");
        ask("wider");
        try (CallableStatement call = db.prepareCall("{? = call abs(?)}")) {
            call.registerOutParameter(1, Types.INTEGER);
            call.setInt(2, -5);
            call.execute();
            System.out.println("abs: " + call.getInt(1));
        }
        change("create function both(x int, out a int, out b text) language sql as 'select x, ''y'''");
        try (CallableStatement call = db.prepareCall("{call both(?, ?, ?)}")) {
            call.setInt(1, 4);
            call.registerOutParameter(2, Types.INTEGER);
            call.registerOutParameter(3, Types.VARCHAR);
            call.execute();
            System.out.println("both: " + call.getInt(2) + " " + call.getString(3));
        }
    }
}
