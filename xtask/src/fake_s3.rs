//! An S3 server of others that tests in Rust run against: gofakes3, built with Go.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::command;

/// A few kills, and calls through a counting proxy, at gofakes3; with the programs that the
/// workspace's tests have built. Their samples on a folder are among those tests.
pub(crate) fn sample() -> Result<bool> {
    let server = FakeS3::start()?;
    let mut tests = command::cargo();
    tests
        .args(["test", "--workspace", "--test", "cloud_crash"])
        .args(["--test", "meter", "--", "--nocapture"])
        .args(["a_server_loses_no_message", "what_a_proxy_sees"]);
    command::succeeds(server.known_to(&mut tests))
}

/// All calls through a counting proxy.
pub(crate) fn meter(calls: u32) -> Result<bool> {
    let server = FakeS3::start()?;
    let mut tests = command::cargo();
    tests
        .args(["test", "--workspace", "--test", "meter"])
        .args(["--", "--nocapture", "what_a_proxy_sees"])
        .env("FADER_METER_CALLS", calls.to_string());
    command::succeeds(server.known_to(&mut tests))
}

/// A running gofakes3 with a bucket `crash`, ended with this value.
pub(crate) struct FakeS3 {
    process: Child,
    address: String,
}

impl FakeS3 {
    /// Builds it, starts it, and makes the bucket.
    pub(crate) fn start() -> Result<FakeS3> {
        let program = command::root().join("target/gofakes3");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(".");
        command::check(build.current_dir(command::root().join("tests/gofakes3")))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let process = Command::new(program)
            .arg(&address)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = FakeS3 { process, address };
        let mut tries = 0;
        while let Err(error) = server.create_bucket() {
            tries += 1;
            ensure!(tries < 300, "gofakes3 does not answer: {error}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    /// Tells a program of tests where it is.
    pub(crate) fn known_to<'a>(&self, tests: &'a mut Command) -> &'a mut Command {
        tests
            .env("FADER_S3", &self.address)
            .env("AWS_ACCESS_KEY_ID", "crash")
            .env("AWS_SECRET_ACCESS_KEY", "crash")
    }

    fn create_bucket(&self) -> Result<()> {
        let mut stream = TcpStream::connect(&self.address)?;
        let head = format!("PUT /crash HTTP/1.1\r\nHost: {}\r\n", self.address);
        let rest = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(format!("{head}{rest}").as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        ensure!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        Ok(())
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        // It holds nothing that is kept.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
