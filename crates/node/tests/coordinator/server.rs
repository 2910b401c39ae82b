//! A ZooKeeper server for tests, and a way to it that can be cut.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fader_chain::placement::Wish;
use fader_chain::{ChainId, DiskId, Version, Wiring};
use fader_node::coordinator::{
    ChainCoordinator, ClusterRecord, ZooKeeperCoordinator, ZooKeeperSettings,
};

const LAUNCHER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/zookeeper/serve.py"
);

/// A server; it ends with its standard input, so also with this process.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(folder: &Path, port: u16) -> Self {
        let mut child = Command::new("python3")
            .arg(LAUNCHER)
            .arg(folder)
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts the ZooKeeper server of the tests");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ");
        let address = address.expect("no ZooKeeper server: see what it says above");
        Server {
            address: address.parse().unwrap(),
            child,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The server that all tests share, which do not touch it.
pub(crate) fn shared() -> SocketAddr {
    static SERVER: OnceLock<(Server, tempfile::TempDir)> = OnceLock::new();
    let (server, _) = SERVER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        (Server::start(folder.path(), 0), folder)
    });
    server.address
}

/// A place where nobody was.
pub(crate) fn place(server: SocketAddr) -> ZooKeeperSettings {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    ZooKeeperSettings {
        hosts: vec![server.to_string()],
        root: format!("/suite/c{number}"),
        credentials: None,
        tls: None,
    }
}

pub(crate) fn record(session: Duration) -> ClusterRecord {
    ClusterRecord {
        version: Version::OLDEST,
        id: 7,
        session,
        wiring: Wiring::Star,
        key_check: [7; 16],
        members: vec!["n1".to_owned(), "n2".to_owned()],
        zones: vec![String::new(); 2],
        chains: 2,
        wish: Wish {
            copies: 2,
            head_zone: None,
            tail_zone: None,
        },
    }
}

/// The first node of a new cluster.
pub(crate) fn cluster(
    server: SocketAddr,
    session: Duration,
) -> (ZooKeeperSettings, ChainCoordinator) {
    cluster_of(Version::OLDEST, server, session)
}

/// The same of a cluster of this version.
pub(crate) fn cluster_of(
    version: Version,
    server: SocketAddr,
    session: Duration,
) -> (ZooKeeperSettings, ChainCoordinator) {
    let place = place(server);
    let record = ClusterRecord {
        version,
        ..record(session)
    };
    ZooKeeperCoordinator::create(&place, &record).unwrap();
    let joined = join(&place, "n1", "here:1");
    (place, joined)
}

/// What a node asks of the system chain, with a folder of its own.
pub(crate) fn join(place: &ZooKeeperSettings, name: &str, address: &str) -> ChainCoordinator {
    join_as(Version::NEWEST, place, name, address)
}

/// The same of a process that speaks no later version.
pub(crate) fn join_as(
    speaks: Version,
    place: &ZooKeeperSettings,
    name: &str,
    address: &str,
) -> ChainCoordinator {
    static FOLDER: AtomicU32 = AtomicU32::new(0);
    let joined = ZooKeeperCoordinator::join(place, name, address, speaks).unwrap();
    let folder = FOLDER.fetch_add(1, Ordering::Relaxed);
    joined.enter(DiskId(1 << 64 | u128::from(folder))).unwrap();
    Arc::new(joined).chain(ChainId::SYSTEM)
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It works.
    Open,
    /// It ends, and none begins.
    Cut,
    /// Nothing comes through.
    Silent,
}

/// A way to a server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<(Way, Vec<TcpStream>)>>,
}

impl Proxy {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new((Way::Open, Vec::new())));
        let proxy = Proxy {
            address,
            state: state.clone(),
        };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server));
                let mut state_now = state.lock().unwrap();
                let Ok(server) = server else { continue };
                if state_now.0 == Way::Cut {
                    continue;
                }
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let ends = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = state.clone();
                    std::thread::spawn(move || carry(ends, &state));
                }
                state_now.1.extend([client, server]);
            }
        });
        proxy
    }

    pub(crate) fn set(&self, way: Way) {
        let mut state = self.state.lock().unwrap();
        state.0 = way;
        if way != Way::Silent {
            // What was held back on a silent way is lost with its connection.
            for stream in state.1.drain(..) {
                drop(stream.shutdown(Shutdown::Both));
            }
        }
    }
}

fn carry((mut from, mut to): (TcpStream, TcpStream), state: &Mutex<(Way, Vec<TcpStream>)>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let way = state.lock().unwrap().0;
        if way == Way::Open && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}
