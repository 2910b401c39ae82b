//! The server under test, and a client that knows nothing but bytes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fader_gateway::{Gateway, Settings};
use fader_node::{Node, Secret};
use fader_services::catalog::{AccountId, KeyNature};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The key that the recorded requests are signed with.
pub(crate) const KEY_ID: &str = "AKIDEXAMPLE01234";
const KEY_SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// A running gateway; its data goes when it does.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) node: Node,
    control: PathBuf,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<std::io::Result<()>>>,
    _data: tempfile::TempDir,
}

/// Settings of most tests: unsigned requests have an account.
pub(crate) fn anonymous() -> Settings {
    Settings {
        anonymous: Some(AccountId("000000000001".to_owned())),
        shutdown_grace: Duration::from_millis(200),
        ..Settings::default()
    }
}

impl Server {
    /// Starts a gateway with `settings` on an empty node that has one key.
    pub(crate) async fn start(settings: Settings) -> Server {
        Server::start_with(settings, None).await
    }

    /// Starts a gateway that speaks TLS if `tls` is given.
    pub(crate) async fn start_with(settings: Settings, tls: Option<fader_gateway::Tls>) -> Server {
        let data = tempfile::tempdir().unwrap();
        let (node, _) = Node::open(fader_node::Settings::new(data.path().join("data"))).unwrap();
        let pair = Some((KEY_ID.to_owned(), Secret::new(KEY_SECRET.to_owned())));
        let account = AccountId("000000000001".to_owned());
        let nature = KeyNature::default();
        let created = node.create_key(&account, pair, "test", nature).await;
        created.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let control = data.path().join("control.sock");
        let control_listener = UnixListener::bind(&control).unwrap();
        let gateway = Gateway::new(node.clone(), settings);
        let (stop, stopped) = watch::channel(false);
        let served = {
            let (gateway, stopped) = (gateway.clone(), stopped.clone());
            tokio::spawn(async move { gateway.serve(listener, tls, stopped).await })
        };
        let controlled =
            tokio::spawn(async move { gateway.serve_control(control_listener, stopped).await });
        let tasks = vec![served, controlled];
        Server {
            address,
            node,
            control,
            stop,
            tasks,
            _data: data,
        }
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A new connection to the administrator's socket.
    pub(crate) async fn connect_control(&self) -> UnixStream {
        UnixStream::connect(&self.control).await.unwrap()
    }

    /// Sends `request` on a connection of its own, ends the sending half, reads all that comes.
    pub(crate) async fn exchange(&self, request: &[u8]) -> String {
        exchange(self.connect().await, request).await
    }

    /// The reply to a form, posted on a connection of its own.
    pub(crate) async fn post(&self, form: &str) -> String {
        self.exchange(post(form).as_bytes()).await
    }

    /// Whether the server still serves: asked after everything that could have hurt it.
    pub(crate) async fn check_alive(&self) {
        let reply = self.post("Action=ListDomains&Version=2009-04-15").await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }

    /// The same of a server that takes no unsigned requests.
    pub(crate) async fn check_refusing(&self) {
        let reply = self.post("Action=ListDomains&Version=2009-04-15").await;
        assert_eq!(outcome(&reply), (403, "AuthMissingFailure"), "{reply}");
    }

    /// Stops the gateway and the node.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
        self.node.close().await;
    }

    /// Gives the stop signal, and nothing more.
    pub(crate) fn signal_stop(&self) {
        self.stop.send_replace(true);
    }
}

/// Sends and half-closes, then reads to the end. A reset counts as an end: what was read stands.
pub(crate) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
) -> String {
    // The server may have said no and closed before it has read all.
    let _ = stream.write_all(request).await;
    let _ = stream.shutdown().await;
    read_all(&mut stream).await
}

/// All that comes until the connection ends.
pub(crate) async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply).await;
    String::from_utf8(reply).unwrap()
}

/// One reply, of a connection that stays open.
pub(crate) async fn read_reply(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut reply = Vec::new();
    loop {
        let byte = stream.read_u8().await.unwrap();
        reply.push(byte);
        if reply.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    let head = String::from_utf8(reply).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

/// A form as a request.
pub(crate) fn post(form: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\
         Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n\r\n{form}",
        form.len()
    )
}

/// The status, and the code of a refusal or "".
pub(crate) fn outcome(reply: &str) -> (u16, &str) {
    let status = reply
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    let code = reply
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"))
        .map_or("", |(code, _)| code);
    (status, code)
}

/// Signed requests as `record.py` recorded them, for the key of these tests.
pub(crate) fn recorded() -> Vec<String> {
    [
        include_str!("../../src/signature/vectors/v2-form.http"),
        include_str!("../../src/signature/vectors/v2-sha1-get.http"),
        include_str!("../../src/signature/vectors/v4-header.http"),
        include_str!("../../src/signature/vectors/v4-query.http"),
        include_str!("../../src/signature/vectors/v4-form.http"),
    ]
    .into_iter()
    .map(|text| {
        let (head, body) = text.split_once("\n\n").unwrap();
        let head = head.replace('\n', "\r\n");
        format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    })
    .collect()
}
