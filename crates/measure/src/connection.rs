//! One keep-alive HTTP/1.1 connection with a parser of what its servers send.
//!
//! Own and not hyper's, since the generator shares its cores with what it measures. There is one
//! write, one read and no allocation for a reply that is no refusal. Servers that send
//! `Transfer-Encoding` are refused.
//!
//! Invariants:
//! - MCONN-1 a reply is never longer than [`HEAD_BYTES_MAX`] plus [`BODY_BYTES_MAX`].
//! - MCONN-2 no octet of one reply is taken for the next: a reply with octets after its end is an
//!   error.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HEAD_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 16 << 20;

/// A connection that opens itself when it is needed.
pub(crate) struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    input: Vec<u8>,
    /// Where in `input` the last reply's body is.
    body: Range<usize>,
}

/// A reply, as long as the connection is not used again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    pub(crate) status: u16,
    /// Why Fader refused it.
    pub(crate) reason: Option<String>,
    pub(crate) body: &'a [u8],
}

/// What a reply's head says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Where the body begins.
    size: usize,
    body_size: usize,
    is_last: bool,
    reason: Option<String>,
}

impl Connection {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Connection {
            address,
            stream: None,
            input: Vec::with_capacity(HEAD_BYTES_MAX),
            body: 0..0,
        }
    }

    /// Opens the connection if it is not open.
    pub(crate) async fn open(&mut self) -> io::Result<&mut TcpStream> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        Ok(self.stream.as_mut().expect("was just set"))
    }

    /// The last reply's body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.input[self.body.clone()]
    }

    /// Sends a request and reads the reply; after an error the next call opens a new connection.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<Reply<'_>> {
        self.open().await?;
        // Out of its place until the reply is whole, so that an error or a dropped call closes it.
        let mut stream = self.stream.take().expect("was just opened");
        self.input.clear();
        self.body = 0..0;
        stream.write_all(request).await?;
        let head = loop {
            if stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(head) = parse_head(&self.input)? {
                break head;
            }
        };
        let end = head.size + head.body_size;
        while self.input.len() < end {
            if stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if end < self.input.len() {
            return Err(invalid("octets after the reply"));
        }
        if !head.is_last {
            self.stream = Some(stream);
        }
        self.body = head.size..end;
        Ok(Reply {
            status: head.status,
            reason: head.reason,
            body: self.body(),
        })
    }
}

/// Reads a reply's head; `None` when there is more to come.
fn parse_head(input: &[u8]) -> io::Result<Option<Head>> {
    let Some(size) = end_of_head(input) else {
        return match input.len() < HEAD_BYTES_MAX {
            true => Ok(None),
            false => Err(invalid("reply's head is too long")),
        };
    };
    let text = std::str::from_utf8(&input[..size]).map_err(|_| invalid("head is not UTF-8"))?;
    // Split at one octet, which is found faster than two.
    let mut lines = text.split('\n');
    let line = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1."))
        .unwrap_or_default();
    let mut words = line.split(' ');
    let mut is_last = words.next() == Some("0");
    let status = words.next().and_then(|word| word.trim_end().parse().ok());
    let status = status.ok_or_else(|| invalid("no HTTP/1 status line"))?;
    let (mut body_size, mut reason) = (None, None);
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| invalid("header without colon"))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            body_size = value.parse().ok().filter(|size| *size <= BODY_BYTES_MAX);
        } else if name.eq_ignore_ascii_case("connection") {
            is_last |= value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("x-fader-reason") {
            reason = Some(value.to_owned());
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(invalid("transfer encodings are not supported"));
        }
    }
    let body_size = body_size.ok_or_else(|| invalid("no content length, or one too large"))?;
    Ok(Some(Head {
        status,
        size: size + 4,
        body_size,
        is_last,
        reason,
    }))
}

/// Where the empty line after a head begins.
fn end_of_head(input: &[u8]) -> Option<usize> {
    let ends = input
        .iter()
        .enumerate()
        .filter(|(_, octet)| **octet == b'\n');
    let mut starts = ends.filter_map(|(at, _)| at.checked_sub(3));
    starts.find(|start| input[*start..].starts_with(b"\r\n\r\n"))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests;
