import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;

/**
 * One ZooKeeper server: FOLDER PORT ADDRESS, port 0 for a free one; or as a file of ZooKeeper's says.
 * Ends with its standard input.
 */
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
        System.setProperty("zookeeper.admin.enableServer", "false");
        if (arguments.length == 1) {
            Thread server = new Thread(() -> QuorumPeerMain.main(arguments));
            server.setDaemon(true);
            server.start();
            System.out.println("begun as " + arguments[0] + " says");
        } else {
            alone(arguments);
        }
        // Whoever started it may be killed: then nobody holds the other end any more.
        while (System.in.read() != -1) {}
        Runtime.getRuntime().halt(0);
    }

    private static void alone(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        int port = Integer.parseInt(arguments[1]);
        NIOServerCnxnFactory factory = new NIOServerCnxnFactory();
        factory.configure(
                new InetSocketAddress(InetAddress.getByName(arguments[2]), port), CONNECTIONS_MAX);
        factory.startup(new ZooKeeperServer(folder, folder, TICK_MS));
        System.out.println("listening on " + arguments[2] + ":" + factory.getLocalPort());
    }
}
