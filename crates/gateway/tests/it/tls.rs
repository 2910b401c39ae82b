//! The same over TLS.

use std::sync::Arc;

use fader_gateway::{Tls, TlsError};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsConnector;

use crate::server::{Server, anonymous, exchange, outcome, post, read_all};

const LIST: &str = "Action=ListDomains&Version=2009-04-15";

#[tokio::test]
async fn requests_are_answered_over_tls_only() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let config = Tls::new(
        certificate.as_bytes(),
        made.signing_key.serialize_pem().as_bytes(),
    );
    let settings = fader_gateway::Settings {
        handshake_timeout: std::time::Duration::from_millis(50),
        ..anonymous()
    };
    let server = Server::start_with(settings, Some(config.unwrap())).await;

    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(client));
    let stream = connector
        .connect(name, server.connect().await)
        .await
        .unwrap();
    let reply = exchange(stream, post(LIST).as_bytes()).await;
    assert_eq!(outcome(&reply), (200, ""), "{reply}");

    // Plain text is no handshake, and neither is silence.
    let reply = server.exchange(post(LIST).as_bytes()).await;
    assert!(!reply.starts_with("HTTP"));
    let mut silent = server.connect().await;
    silent.write_all(&[]).await.unwrap();
    assert_eq!(read_all(&mut silent).await, "");
    server.stop().await;
}

#[test]
fn certificates_and_keys_that_do_not_fit_are_refused() {
    let [one, other] = ["one", "other"]
        .map(|name| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap());
    let certificate = one.cert.pem();
    let key = one.signing_key.serialize_pem();
    let other_key = other.signing_key.serialize_pem();
    assert!(Tls::new(certificate.as_bytes(), key.as_bytes()).is_ok());
    for (certificate, key, expected) in [
        ("", &*key, "the certificate cannot be read"),
        (&*key, &*key, "the certificate cannot be read"),
        (&*certificate, "", "the private key cannot be read"),
        (
            &*certificate,
            &*certificate,
            "the private key cannot be read",
        ),
        (
            &*certificate,
            &*other_key,
            "the certificate and key cannot be used",
        ),
    ] {
        let error: TlsError = Tls::new(certificate.as_bytes(), key.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
