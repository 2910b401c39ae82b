//! The first access key: the configured one, or a random one that is shown once.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use fader_node::{Node, OpenKey};
use fader_services::ErrorCode;
use fader_services::catalog::{AccountId, KeyNature, KeyStatus};
use tracing::{info, warn};

use crate::config::{Config, Origin};
use crate::failure;
use crate::keys::FIRST_ACCOUNT;

/// How often a member looks whether another one made the key.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Sees to it that there is a key to begin with. A server in anonymous mode makes none of itself.
pub(super) async fn ensure(
    node: &Node,
    config: &Config,
    address: &SocketAddr,
    has_tls: bool,
) -> Result<()> {
    // A client that needs no key gets none: `fader keys create` makes one.
    if config.anonymous.value && config.root.value.is_none() {
        return Ok(());
    }
    // Where another member decides, that one makes the key, and it comes here with all else.
    while !node.decides() && is_absent(node, config).await? {
        tokio::time::sleep(LOOK).await;
    }
    let account = AccountId(FIRST_ACCOUNT.to_owned());
    let nature = KeyNature::default();
    let Some((id, secret)) = &config.root.value else {
        if node.keys().await?.is_empty() {
            let open = node
                .create_key(&account, None, "created by the first start", nature)
                .await?;
            show(&open, address, has_tls);
        }
        return Ok(());
    };
    match node.open_key(id).await? {
        None => {
            let pair = Some((id.clone(), secret.clone()));
            node.create_key(&account, pair, "from the configuration", nature)
                .await?;
            info!(key = id, "created the configured access key");
        }
        Some(open) if open.secret.reveal() != secret.reveal() => {
            let origin = match &config.root.origin {
                Origin::File(file) => file.display().to_string(),
                _ => "the environment".to_owned(),
            };
            return failure::fail(
                ErrorCode::ConfigurationInvalid,
                format_args!(
                    "access key {id} exists with another secret than {origin} says; configure \
                     another key, or use the stored one"
                ),
            );
        }
        Some(open) if open.key.status == KeyStatus::Disabled => {
            warn!(
                key = id,
                "the configured access key is disabled; `fader keys enable` accepts it"
            );
        }
        Some(_) => {}
    }
    Ok(())
}

async fn is_absent(node: &Node, config: &Config) -> Result<bool> {
    Ok(match &config.root.value {
        None => node.keys().await?.is_empty(),
        Some((id, _)) => node.open_key(id).await?.is_none(),
    })
}

/// Prints how to use a new key. Directly, so that the secret is in no log.
fn show(open: &OpenKey, address: &SocketAddr, has_tls: bool) {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let scheme = if has_tls { "https" } else { "http" };
    let endpoint = format!("{scheme}://{host}:{}", address.port());
    let (id, secret) = (&open.key.id, open.secret.reveal());
    note!(
        "
A first access key was created. Its secret is shown now and never again:

    export AWS_ACCESS_KEY_ID={id}
    export AWS_SECRET_ACCESS_KEY={secret}
    export AWS_DEFAULT_REGION=us-east-1
    export AWS_ENDPOINT_URL={endpoint}

With these set, try

    python3 -c 'import boto3; print(boto3.client(\"sdb\").list_domains())'
    aws configure set preview.sdb true && aws sdb list-domains
    fader sdb domains

`fader keys rotate {id}` replaces it when it is lost or known too widely.
"
    );
}
