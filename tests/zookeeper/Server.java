import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** One ZooKeeper server: FOLDER PORT ADDRESS, port 0 for a free one. Ends with its standard input. */
public final class Server {
    private static final int TICK_MS = 500;
    private static final int CONNECTIONS_MAX = 1000;

    public static void main(String[] arguments) {
        try {
            serve(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
        }
        // Threads of the server would keep the process alive.
        Runtime.getRuntime().halt(1);
    }

    private static void serve(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        int port = Integer.parseInt(arguments[1]);
        System.setProperty("zookeeper.admin.enableServer", "false");
        NIOServerCnxnFactory factory = new NIOServerCnxnFactory();
        factory.configure(
                new InetSocketAddress(InetAddress.getByName(arguments[2]), port), CONNECTIONS_MAX);
        factory.startup(new ZooKeeperServer(folder, folder, TICK_MS));
        System.out.println("listening on " + arguments[2] + ":" + factory.getLocalPort());
        // Whoever started it may be killed: then nobody holds the other end any more.
        while (System.in.read() != -1) {}
        Runtime.getRuntime().halt(0);
    }
}
