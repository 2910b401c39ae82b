//! A ZooKeeper server for tests, and a way to it that can be cut.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fader_chain::placement::PlacementPolicy;
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

/// A place where no cluster was.
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
        policy: PlacementPolicy {
            replication_factor: 2,
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
    /// Requests are held from the first one on that has this text; the client may give up.
    Held(&'static str),
}

/// A way to a server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<Carried>>,
}

/// What a proxy carries.
struct Carried {
    way: Way,
    streams: Vec<TcpStream>,
    /// The bytes that wait for each server end on which requests are held, by number.
    held: BTreeMap<usize, (TcpStream, Vec<u8>)>,
    numbers: usize,
    /// The bytes of requests since they were forgotten.
    requests: Vec<u8>,
}

impl Proxy {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(Carried {
            way: Way::Open,
            streams: Vec::new(),
            held: BTreeMap::new(),
            numbers: 0,
            requests: Vec::new(),
        }));
        let proxy = Proxy {
            address,
            state: state.clone(),
        };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server));
                let mut state_now = state.lock().unwrap();
                let Ok(server) = server else { continue };
                if state_now.way == Way::Cut {
                    continue;
                }
                for (from, to, is_request) in [(&client, &server, true), (&server, &client, false)]
                {
                    let ends = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = state.clone();
                    std::thread::spawn(move || carry(ends, is_request, &state));
                }
                state_now.streams.extend([client, server]);
            }
        });
        proxy
    }

    /// Connections on which requests are held stay as they are.
    pub(crate) fn set(&self, way: Way) {
        let mut state = self.state.lock().unwrap();
        state.way = way;
        if matches!(way, Way::Open | Way::Cut) && state.held.is_empty() {
            // What was held back on a silent way is lost with its connection.
            for stream in state.streams.drain(..) {
                drop(stream.shutdown(Shutdown::Both));
            }
        }
    }

    /// Counts requests from now on.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().requests.clear();
    }

    /// How often requests had this text since.
    pub(crate) fn count(&self, text: &str) -> usize {
        let state = self.state.lock().unwrap();
        let windows = state.requests.windows(text.len());
        windows.filter(|it| *it == text.as_bytes()).count()
    }

    /// How many connections have requests that are held.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().unwrap().held.len()
    }

    /// Delivers what is held, and waits until the server has carried it out. The clients have given
    /// these connections up: the last request of each ends it, and the server closes it then.
    pub(crate) fn deliver(&self) {
        let held = std::mem::take(&mut self.state.lock().unwrap().held);
        for (mut server, bytes) in held.into_values() {
            server.write_all(&bytes).unwrap();
            let patience = Some(Duration::from_secs(60));
            server.set_read_timeout(patience).unwrap();
            if let Err(error) = server.read_to_end(&mut Vec::new()) {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            }
        }
    }
}

fn carry((mut from, mut to): (TcpStream, TcpStream), is_request: bool, state: &Mutex<Carried>) {
    let mut bytes = [0; 4096];
    let mut held_at = None;
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let bytes = &bytes[..count];
        let mut state = state.lock().unwrap();
        if is_request {
            state.requests.extend_from_slice(bytes);
        }
        let is_held = match state.way {
            Way::Held(text) => bytes.windows(text.len()).any(|it| it == text.as_bytes()),
            _ => false,
        };
        if is_request && held_at.is_none() && is_held {
            state.numbers += 1;
            held_at = Some(state.numbers);
            let server = to.try_clone().unwrap();
            let number = state.numbers;
            state.held.insert(number, (server, Vec::new()));
        }
        if let Some((_, held)) = held_at.and_then(|at| state.held.get_mut(&at)) {
            held.extend_from_slice(bytes);
            continue;
        }
        let is_carried = state.way != Way::Silent;
        drop(state);
        if is_carried && to.write_all(bytes).is_err() {
            break;
        }
    }
    // A server that is to hear of what is held goes on waiting for it.
    if held_at.is_none() {
        drop(to.shutdown(Shutdown::Both));
    }
}
