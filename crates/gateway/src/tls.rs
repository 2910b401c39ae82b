//! TLS for the listener: a certificate chain and a key in PEM become a server's configuration.
//!
//! One crypto provider (ring), named explicitly, so that no other crate's choice matters.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file is not PEM, or has no certificate.
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
    /// The key file is not PEM, or has no key.
    #[error("the private key cannot be read: {0}")]
    Key(String),
    /// The two do not fit together, or their algorithm is not supported.
    #[error("the certificate and key cannot be used: {0}")]
    Pair(#[from] rustls::Error),
}

/// The certificate that a listener shows. It can be replaced while connections are served: those
/// that begin later see the new one. Clones are one.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(..)")
    }
}

impl Tls {
    /// A certificate chain (server's own first) and its private key, in PEM.
    ///
    /// # Errors
    /// [`TlsError`] with the file at fault.
    pub fn new(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Tls, TlsError> {
        let config = tls_config(certificate_pem, key_pem)?;
        Ok(Tls(Arc::new(RwLock::new(config))))
    }

    /// Shows what `other` shows from now on.
    pub fn replace(&self, other: &Tls) {
        let newest = other.current();
        *self.0.write() = newest;
    }

    /// What the next connection is served with.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.0.read().clone()
    }
}

/// The configuration for a certificate chain (server's own first) and its private key.
///
/// # Errors
/// [`TlsError`] with the file at fault.
fn tls_config(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(certificate_pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| TlsError::Certificate(e.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::Certificate("it holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|e| TlsError::Key(e.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
