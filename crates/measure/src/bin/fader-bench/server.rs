//! The servers that are measured, each a process of its own on a free port, ended when dropped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fader_client::{Client, Credentials, Pacing, Settings, SignatureVersion, Signer, SimpleDb};
use fader_measure::Target;

use crate::machine::ProcessTimes;

/// A server that says nothing for this long does not start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// A graceful end may write a lot.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of a dead server's log that are shown.
const TAIL_BYTES: usize = 4 << 10;
/// Far more than `/metrics` has.
const METRICS_BYTES_MAX: u64 = 1 << 20;

const ACCESS_KEY: &str = "FADERBENCHFADERBENCH";
const SECRET_KEY: &str = "only-ever-used-on-loopback-by-this-benchmark";

/// A running server.
pub(crate) struct Server {
    name: String,
    child: Child,
    address: SocketAddr,
    signature: SignatureVersion,
    /// From starting the process to its listening.
    pub(crate) start_time: Duration,
}

impl Server {
    /// Fader, with data in a folder.
    pub(crate) fn fader(binary: &Path, data: &Path) -> Result<Self> {
        Server::fader_by(Command::new(binary), data)
    }

    /// Fader, by a command that starts its binary with the arguments that are added.
    pub(crate) fn fader_by(mut command: Command, data: &Path) -> Result<Self> {
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data);
        command
            .env("FADER_ROOT_ACCESS_KEY", ACCESS_KEY)
            .env("FADER_ROOT_SECRET_KEY", SECRET_KEY);
        Server::start(
            "fader",
            command,
            &data.with_extension("stderr"),
            SignatureVersion::V2,
        )
    }

    /// The floor, answering with that many octets.
    pub(crate) fn floor(bytes: usize, scratch: &Path) -> Result<Self> {
        Server::floor_with(bytes, &[], scratch)
    }

    /// The floor, each of whose answers takes a random time of so many milliseconds at most.
    pub(crate) fn slow_floor(bytes: usize, most_ms: u64, scratch: &Path) -> Result<Self> {
        Server::floor_with(bytes, &["--takes-ms", &most_ms.to_string()], scratch)
    }

    fn floor_with(bytes: usize, more: &[&str], scratch: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let bytes = bytes.to_string();
        command.args(["floor", "--bytes", &bytes]).args(more);
        let output = scratch.join(format!("floor-{bytes}{}.stderr", more.concat()));
        Server::start("floor", command, &output, SignatureVersion::V2)
    }

    /// moto_server, which tells services apart by the scope of version 4 signatures.
    pub(crate) fn moto(binary: &Path, scratch: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args(["-H", "127.0.0.1", "-p", "0"]);
        Server::start(
            "moto",
            command,
            &scratch.join("moto.stderr"),
            SignatureVersion::V4,
        )
    }

    fn start(
        name: &str,
        mut command: Command,
        errors: &Path,
        signature: SignatureVersion,
    ) -> Result<Self> {
        let begin = Instant::now();
        let (lines, said) = mpsc::channel();
        let program = command.get_program().to_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let output = child.stdout.take().context("stdout is piped")?;
        forward(output, None, lines.clone());
        let output = child.stderr.take().context("stderr is piped")?;
        forward(output, Some(File::create(errors)?), lines);
        let address = loop {
            match said.recv_timeout(START_TIMEOUT.saturating_sub(begin.elapsed())) {
                Ok(line) => {
                    if let Some(address) = listening(&line) {
                        break address;
                    }
                }
                Err(_) => {
                    let _ = child.kill();
                    let status = child.wait()?;
                    bail!(
                        "{name} does not listen ({status}); its end was:\n{}",
                        tail(errors)
                    );
                }
            }
        };
        let start_time = begin.elapsed();
        Ok(Server {
            name: name.to_owned(),
            child,
            address,
            signature,
            start_time,
        })
    }

    /// The access key of every server that is started here, and its secret.
    pub(crate) fn credentials() -> (&'static str, &'static str) {
        (ACCESS_KEY, SECRET_KEY)
    }

    /// Where the generator sends its load.
    pub(crate) fn target(&self) -> Target {
        let credentials = Credentials::new(ACCESS_KEY, SECRET_KEY);
        let signer = Signer::new(&credentials, self.signature, &self.address.to_string());
        Target {
            address: self.address,
            signer: Arc::new(signer),
        }
    }

    /// A client for what is not measured. It sends once, and tells what became of that.
    pub(crate) fn client(&self) -> Result<SimpleDb> {
        let settings = Settings {
            signature: self.signature,
            pace: Pacing::Bare,
            ..Settings::default()
        };
        let credentials = Credentials::new(ACCESS_KEY, SECRET_KEY);
        let endpoint = format!("http://{}", self.address);
        Ok(SimpleDb(Client::new(
            &endpoint,
            Some(credentials),
            settings,
        )?))
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: u64 = line
            .and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
            .context("VmRSS in /proc is a number of kB")?;
        Ok(kilobytes << 10)
    }

    /// One figure of Fader's `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> Result<u64> {
        let mut stream = TcpStream::connect(self.address)?;
        let host = self.address;
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        )?;
        let mut reply = String::new();
        stream.take(METRICS_BYTES_MAX).read_to_string(&mut reply)?;
        let figure = reply
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        figure.with_context(|| format!("/metrics has no {name}"))
    }

    /// Processor time used so far, in seconds, of all its threads.
    pub(crate) fn processor_time(&self) -> Result<f64> {
        let times = ProcessTimes::of(self.child.id())?;
        Ok(times.user + times.system)
    }

    /// Ends it as an operator would, and waits.
    pub(crate) fn stop(mut self) -> Result<ExitStatus> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status()?;
        ensure!(sent.success(), "cannot send SIGTERM to {}", self.name);
        let begin = Instant::now();
        while begin.elapsed() < STOP_TIMEOUT {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("{} did not end within {STOP_TIMEOUT:?}", self.name)
    }

    /// Ends it without any warning: kill -9.
    pub(crate) fn crash(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Does nothing to a process that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads what a server says to the end, so that it never waits for a reader.
fn forward(
    output: impl Read + Send + 'static,
    mut copy: Option<File>,
    lines: mpsc::Sender<String>,
) {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(copy) = &mut copy {
                let _ = writeln!(copy, "{line}");
            }
            let _ = lines.send(line);
        }
    });
}

/// The address in Fader's and the floor's `listening on http://..`, and in moto's `Running on`.
fn listening(line: &str) -> Option<SocketAddr> {
    let (before, address) = line.split_once("http://")?;
    let before = before.trim_end();
    let is_said = before.ends_with("listening on") || before.ends_with("Running on");
    is_said
        .then(|| address.trim_end().trim_end_matches('/').parse().ok())
        .flatten()
}

fn tail(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(TAIL_BYTES)..]).into_owned()
}
