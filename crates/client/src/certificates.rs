//! Which certificates of servers are trusted.
//!
//! As everywhere, those that an authority signed; and those that a bundle names themselves. A
//! certificate that signs itself, as `openssl req -x509` makes it, is an authority's by its own
//! words. So it is refused as a server's by the rules. A user that puts it into a bundle trusts it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// What the library says of an authority that shows itself as a server: it has looked at the times
/// before.
const AUTHORITY: &str = "CaUsedAsEndEntity";

/// The usual verification, for servers whose certificates are named too.
#[derive(Debug)]
pub(crate) struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Trusts what `roots` signed, and `named`, which are some of them.
    ///
    /// # Errors
    /// When there are no roots.
    pub(crate) fn new(
        named: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let roots = Arc::new(roots);
        let usual = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
        Ok(Verifier {
            usual: usual.build()?,
            named,
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match usual {
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if why.to_string() == AUTHORITY && self.named.iter().any(|it| it == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
