//! Where requests go: an address, over TCP, TLS or a Unix socket.
//!
//! Certificates are verified against the given authorities or the system's; there is no switch to
//! turn that off.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::Verifier;
use crate::error::{Error, ErrorKind};

/// Where Linux distributions keep the certificates of the authorities they trust.
const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// A parsed endpoint.
pub(crate) enum Endpoint {
    /// HTTP over TCP, in TLS if it has a connector.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
        /// What https needs.
        tls: Option<(TlsConnector, ServerName<'static>)>,
    },
    /// HTTP over a Unix socket.
    Unix(PathBuf),
}

/// A connected byte stream.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

impl Endpoint {
    /// Reads `http://host:port` or `https://host:port`; gives the `Host` header too.
    pub(crate) fn parse(url: &str, ca_pem: Option<&[u8]>) -> Result<(Endpoint, String), Error> {
        let invalid = || {
            Error::invalid(format!(
                "endpoint {url:?} is not http://host:port or https://host:port"
            ))
        };
        let uri: hyper::Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
        if !is_bare || authority.as_str().contains('@') {
            return Err(invalid());
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (80, None),
            Some("https") => {
                let name = ServerName::try_from(host.clone()).map_err(|_| invalid())?;
                (443, Some((connector(ca_pem)?, name)))
            }
            _ => return Err(invalid()),
        };
        let header = authority.as_str().to_ascii_lowercase();
        Ok((
            Endpoint::Tcp {
                host,
                port: authority.port_u16().unwrap_or(port),
                tls,
            },
            header,
        ))
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> io::Result<Stream> {
        match self {
            Endpoint::Tcp { host, port, tls } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                match tls {
                    None => Ok(Stream::Tcp(stream)),
                    Some((connector, name)) => {
                        let stream = connector.connect(name.clone(), stream).await?;
                        Ok(Stream::Tls(Box::new(stream)))
                    }
                }
            }
            Endpoint::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }
}

fn connector(ca_pem: Option<&[u8]>) -> Result<TlsConnector, Error> {
    let unusable = |error: &dyn std::fmt::Display| {
        Error::invalid(format!("certificate authorities cannot be used: {error}"))
    };
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    match ca_pem {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| unusable(&error))?;
                named.push(certificate.clone());
                roots.add(certificate).map_err(|error| unusable(&error))?;
            }
        }
        None => {
            let found = SYSTEM_AUTHORITIES
                .iter()
                .find_map(|path| std::fs::read(path).ok());
            for certificate in CertificateDer::pem_slice_iter(&found.unwrap_or_default()).flatten()
            {
                // An authority this library cannot read is one it does not trust.
                let _ = roots.add(certificate);
            }
        }
    }
    if roots.is_empty() {
        return Err(unusable(&"there are none"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(named, roots, &provider).map_err(|error| unusable(&error))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::caused(ErrorKind::Invalid, "TLS cannot be set up", error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, octets),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, octets),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, octets),
        }
    }

    /// Without this the head of each request would be copied behind its body before it is sent.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
