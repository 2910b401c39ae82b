//! The bytes of ZooKeeper's client protocol, as far as a coordinator needs them.
//!
//! ```text
//! frame   := size:i32 body                      big-endian, as everything here
//! request := xid:i32 op:i32 …                   string, buffer := size:i32 bytes, -1 for none
//! reply   := xid:i32 zxid:i64 error:i32 …       xid -1: a watch fired
//! ```
//!
//! Invariants:
//! - ZKWIRE-1 reading what a server sends never panics and never allocates more than what was sent.
//!
//! Deliberately absent: transactions, quotas, SASL, TLS, servers that only read.

/// Bytes of a frame from a server; ZooKeeper's own bound is the same.
pub(crate) const FRAME_MAX: usize = 1 << 20;

/// The xid of a notice that a watch fired.
pub(crate) const WATCH_XID: i32 = -1;
/// The xid that a request to authenticate has.
pub(crate) const AUTH_XID: i32 = -4;

/// What a server is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Op {
    Create = 1,
    Delete = 2,
    Exists = 3,
    GetData = 4,
    SetData = 5,
    GetChildren = 8,
    Sync = 9,
    Auth = 100,
    CloseSession = -11,
}

/// Codes of errors that mean something to us.
pub(crate) mod code {
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const BAD_VERSION: i32 = -103;
    pub(crate) const NODE_EXISTS: i32 = -110;
    pub(crate) const SESSION_EXPIRED: i32 = -112;
    pub(crate) const AUTH_FAILED: i32 = -115;
}

/// A server sent what is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's reply is cut short")]
pub(crate) struct Malformed;

/// A frame that is being written.
pub(crate) struct Out(Vec<u8>);

impl Out {
    pub(crate) fn new() -> Self {
        Out(vec![0; 4])
    }

    pub(crate) fn request(xid: i32, op: Op) -> Self {
        let mut out = Self::new();
        out.int(xid);
        out.int(op as i32);
        out
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    pub(crate) fn int(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn long(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn buffer(&mut self, bytes: &[u8]) {
        self.int(i32::try_from(bytes.len()).expect("what we send is bounded"));
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn string(&mut self, text: &str) {
        self.buffer(text.as_bytes());
    }

    /// The frame.
    pub(crate) fn frame(mut self) -> Vec<u8> {
        let size = i32::try_from(self.0.len() - 4).expect("what we send is bounded");
        self.0[..4].copy_from_slice(&size.to_be_bytes());
        self.0
    }
}

/// A body that is being read.
pub(crate) struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        In(body)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn buffer(&mut self) -> Result<&'a [u8], Malformed> {
        let size = self.int()?;
        if size == -1 {
            return Ok(&[]);
        }
        let size = usize::try_from(size).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(size).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn string(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.buffer()?).map_err(|_| Malformed)
    }

    /// When a znode was made, in the order of all changes, and the version of its data. They are
    /// read from what is told about it: czxid, mzxid, ctime, mtime, version, and more.
    pub(crate) fn stat(&mut self) -> Result<(i64, i32), Malformed> {
        let created = self.long()?;
        for _ in 0..3 {
            self.long()?;
        }
        Ok((created, self.int()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

#[cfg(test)]
mod tests;
