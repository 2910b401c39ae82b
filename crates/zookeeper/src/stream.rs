//! The way to a server of ZooKeeper: TCP, or TLS over it.
//!
//! With TLS a server has to show a certificate for the name it is called by, of an authority that
//! was named. No other is trusted. Where servers ask for one, this process shows its own. All of it
//! can be replaced while connections are open: those that begin later use what is newest.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Why TLS to ZooKeeper cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of authorities is not PEM, or has none.
    #[error("no certificate of an authority can be read: {0}")]
    Authority(String),
    /// The certificate of this process is not PEM, or its file has none.
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
    /// Its key is not PEM, or its file has none.
    #[error("the private key cannot be read: {0}")]
    Key(String),
    /// They do not fit together, or their algorithm is not supported.
    #[error("the certificates cannot be used: {0}")]
    Pair(#[from] rustls::Error),
}

/// How servers are known, and this process to them. Clones are one.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Arc<ClientConfig>>>);

impl Tls {
    /// Trusts authorities (PEM) for servers; shows a certificate chain with its key (PEM) to those
    /// who ask for one.
    ///
    /// # Errors
    /// [`TlsError`] with the file at fault.
    pub fn new(authorities: &[u8], own: Option<(&[u8], &[u8])>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities) {
            let certificate =
                certificate.map_err(|error| TlsError::Authority(error.to_string()))?;
            roots.add(certificate)?;
        }
        if roots.is_empty() {
            return Err(TlsError::Authority("the file holds none".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let Some((chain, key)) = own else {
            return Ok(Tls::of(config.with_no_client_auth()));
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| TlsError::Certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(TlsError::Certificate("the file holds none".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| TlsError::Key(error.to_string()))?;
        Ok(Tls::of(config.with_client_auth_cert(chain, key)?))
    }

    /// Connections that begin from now on are as `other`'s.
    pub fn replace(&self, other: &Tls) {
        let newest = other.current();
        *self.0.write() = newest;
    }

    fn of(config: ClientConfig) -> Self {
        Tls(Arc::new(RwLock::new(Arc::new(config))))
    }

    fn current(&self) -> Arc<ClientConfig> {
        self.0.read().clone()
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// A connection, with or without TLS. Times for reading and writing hold for each piece of either.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Speaks over `tcp` with the server `host`, which is called by a name or an address, and a
    /// port.
    pub(crate) fn new(tcp: TcpStream, host: &str, tls: Option<&Tls>) -> io::Result<Self> {
        let Some(tls) = tls else {
            return Ok(Stream::Plain(tcp));
        };
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(tls.current(), name).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, tcp))))
    }

    pub(crate) fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        self.tcp().set_read_timeout(Some(time))
    }

    /// Whether the other side has closed the connection, as far as is known without waiting.
    pub(crate) fn has_ended(&self) -> bool {
        let tcp = self.tcp();
        let peeked = tcp
            .set_nonblocking(true)
            .and_then(|()| tcp.peek(&mut [0]))
            .map(|count| count == 0);
        let is_blocking = tcp.set_nonblocking(false).is_ok();
        match peeked {
            Ok(is_end) => is_end || !is_blocking,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock || !is_blocking,
        }
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => &tls.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.read(bytes),
            Stream::Tls(tls) => tls.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(tcp) => tcp.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}
