//! Fader's control socket: access keys, as JSON over HTTP on a Unix socket that only the server's
//! own user can open.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fader_services::Kind;
use fader_services::Mode;
use fader_services::catalog::{AccountId, KeyNature, Name, Rights};
use fader_services::level::DefaultConsistency;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind};
use crate::http::{Http, Limits, Pacing, Plan, WindowKey};
use crate::pool::Pool;
use crate::transport::Endpoint;

/// Orders of an administrator leave at once, and once.
const LIMITS: Limits = Limits {
    pace: Pacing::Bare,
    timeout: Duration::from_secs(30),
    attempt_timeout: Duration::from_secs(30),
};
const REPLY_BYTES_MAX: usize = 4 << 20;

/// A server's control socket.
pub struct Control {
    http: Http,
    pool: Arc<Pool<Full<Bytes>>>,
}

/// An access key as listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Key {
    /// The access key.
    pub id: String,
    /// Whose domains it opens.
    pub account: String,
    /// Whether it is accepted.
    pub status: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// What its maker wrote beside it.
    #[serde(default)]
    pub note: String,
    /// The level of its requests that name none; empty for the services' own promise.
    #[serde(default)]
    pub consistency: String,
    /// What it may do: `all`, or `granted` of one with only what policies give it.
    #[serde(default)]
    pub rights: String,
}

/// A key that was just made: the only time its secret is shown.
#[derive(Clone, Deserialize)]
pub struct NewKey {
    /// The access key.
    pub id: String,
    /// Its secret.
    pub secret: Zeroizing<String>,
    /// Whose domains it opens.
    pub account: String,
}

/// How a cluster does.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ClusterStatus {
    /// The epoch of the newest configuration; 0 before the first.
    pub epoch: u64,
    /// How entries travel.
    pub wiring: Option<String>,
    /// How often it went on with less than was acknowledged, by an operator's order.
    #[serde(default)]
    pub lossy: u64,
    /// The epoch with which it did the last time.
    #[serde(default)]
    pub lossy_epoch: u64,
    /// Its members, by name.
    pub members: Vec<MemberStatus>,
}

/// How a member does.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MemberStatus {
    /// Its name: n1, n2, …
    pub name: String,
    /// Whether it runs, is paused, or was killed.
    pub state: String,
    /// Its place in the configuration, if it has one.
    pub role: Option<String>,
    /// The side of a partition it is on.
    pub side: usize,
    /// The epoch it is in.
    pub epoch: u64,
    /// The index of the last entry it knows committed.
    pub commit_index: u64,
}

/// How a domain's mode stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DomainMode {
    /// The mode; `draining` on the way to `strong`.
    pub mode: String,
    /// Whom a draining domain waits for: members that are absent, and may hold eventual writes of
    /// it.
    pub absent: Vec<String>,
    /// Members that were asked for theirs, and have not answered.
    pub silent: Vec<String>,
}

/// Which chains are asked what they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitScope<'a> {
    /// All that the server takes part in.
    All,
    /// That of this number.
    Chain(u32),
    /// That which has this domain of this account.
    Domain(&'a str, &'a str),
}

#[derive(Deserialize)]
struct Whys {
    chains: Vec<String>,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Key>,
}

impl Control {
    /// The control socket at a path.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        let pool = Pool::new(Endpoint::Unix(socket.into()), 1, REPLY_BYTES_MAX);
        Control {
            http: Http::shared(),
            pool: Arc::new(pool),
        }
    }

    /// All keys.
    ///
    /// # Errors
    /// `Refused` by the server, `Unavailable`, or `Malformed` for an answer that is not as agreed.
    pub async fn keys(&self) -> Result<Vec<Key>, Error> {
        let keys: Keys = parse(&self.call("GET", "/keys", None).await?)?;
        Ok(keys.keys)
    }

    /// Makes a key of an account, and the account if it is new. `pair` is an id with its secret, of
    /// a key that another server had.
    ///
    /// # Errors
    /// `Refused` by the server, `Unavailable`, `Ambiguous` without an answer, or `Malformed`.
    pub async fn create_key(
        &self,
        account: &str,
        pair: Option<(&str, &str)>,
        note: &str,
        nature: KeyNature,
    ) -> Result<NewKey, Error> {
        let consistency = shown(nature.preference);
        let mut body = serde_json::json!({
            "account": account, "note": note, "consistency": consistency,
        });
        // An older server does not know these fields, and refuses them.
        if nature.rights == Rights::Granted {
            body["rights"] = "granted".into();
        }
        if let Some((id, secret)) = pair {
            body["id"] = id.into();
            body["secret"] = secret.into();
        }
        parse(&self.call("POST", "/keys", Some(body.to_string())).await?)
    }

    /// Stops accepting a key.
    ///
    /// # Errors
    /// `Invalid` for a text that is not an access key; otherwise as [`Control::create_key`].
    pub async fn disable(&self, id: &str) -> Result<(), Error> {
        self.change(id, "disable", None).await.map(drop)
    }

    /// Accepts a key again.
    ///
    /// # Errors
    /// As [`Control::disable`].
    pub async fn enable(&self, id: &str) -> Result<(), Error> {
        self.change(id, "enable", None).await.map(drop)
    }

    /// Sets the level of a key's requests that name none.
    ///
    /// # Errors
    /// As [`Control::disable`].
    pub async fn prefer(
        &self,
        id: &str,
        preference: Option<DefaultConsistency>,
    ) -> Result<(), Error> {
        let body = serde_json::json!({ "consistency": shown(preference) });
        let changed = self.change(id, "set", Some(body.to_string()));
        changed.await.map(drop)
    }

    /// Makes a new key in the place of one, which is disabled.
    ///
    /// # Errors
    /// As [`Control::disable`].
    pub async fn rotate(&self, id: &str) -> Result<NewKey, Error> {
        parse(&self.change(id, "rotate", None).await?)
    }

    /// The mode of a domain or a queue.
    ///
    /// # Errors
    /// `Invalid` for a name without a path; otherwise as [`Control::keys`].
    pub async fn mode(&self, name: Name<'_>) -> Result<DomainMode, Error> {
        let path = path_of(name)?;
        parse(&self.call("GET", &path, None).await?)
    }

    /// Gives a domain or a queue another mode, or begins to; `abandon`: without the members that
    /// are absent.
    ///
    /// # Errors
    /// `Invalid` for a name without a path; otherwise as [`Control::create_key`].
    pub async fn set_mode(
        &self,
        name: Name<'_>,
        mode: Mode,
        abandon: bool,
    ) -> Result<DomainMode, Error> {
        let path = path_of(name)? + "/mode";
        let body = serde_json::json!({ "mode": mode.to_string(), "abandon": abandon });
        parse(&self.call("POST", &path, Some(body.to_string())).await?)
    }

    /// How the members of a cluster do.
    ///
    /// # Errors
    /// As [`Control::keys`].
    pub async fn cluster(&self) -> Result<ClusterStatus, Error> {
        parse(&self.call("GET", "/cluster", None).await?)
    }

    /// What the chains of a cluster wait for, a text for each: all, or that of `of`.
    ///
    /// # Errors
    /// As [`Control::mode`].
    pub async fn wait_reports(&self, of: WaitScope<'_>) -> Result<Vec<String>, Error> {
        let path = match of {
            WaitScope::All => "/cluster/diagnose".to_owned(),
            WaitScope::Chain(number) => format!("/cluster/diagnose/{number}"),
            WaitScope::Domain(account, domain) => {
                let account = AccountId(account.to_owned());
                let path = path_of(Name::domain(&account, domain))?;
                path.replacen("/domains", "/cluster/diagnose", 1)
            }
        };
        let whys: Whys = parse(&self.call("GET", &path, None).await?)?;
        Ok(whys.chains)
    }

    /// Ends a member at once.
    ///
    /// # Errors
    /// `Refused` by the server, `Unavailable`, or `Ambiguous` without an answer.
    pub async fn kill(&self, name: &str) -> Result<(), Error> {
        self.order("kill", serde_json::json!({ "name": name }))
            .await
    }

    /// Starts a member that was killed.
    ///
    /// # Errors
    /// As [`Control::kill`].
    pub async fn restart(&self, name: &str) -> Result<(), Error> {
        self.order("restart", serde_json::json!({ "name": name }))
            .await
    }

    /// Holds a member up for a time.
    ///
    /// # Errors
    /// As [`Control::kill`].
    pub async fn pause(&self, name: &str, time: Duration) -> Result<(), Error> {
        let body = serde_json::json!({ "name": name, "ms": time.as_millis() as u64 });
        self.order("pause", body).await
    }

    /// Cuts the ways between members of different sides.
    ///
    /// # Errors
    /// As [`Control::kill`].
    pub async fn partition(&self, sides: &[Vec<String>]) -> Result<(), Error> {
        self.order("partition", serde_json::json!({ "sides": sides }))
            .await
    }

    /// Ends a partition.
    ///
    /// # Errors
    /// As [`Control::kill`].
    pub async fn heal(&self) -> Result<(), Error> {
        self.order("heal", serde_json::json!({})).await
    }

    /// Goes on with what a member has, although others acknowledged more.
    ///
    /// # Errors
    /// As [`Control::kill`].
    pub async fn restore(&self, name: &str) -> Result<(), Error> {
        self.order("restore", serde_json::json!({ "name": name }))
            .await
    }

    async fn order(&self, verb: &str, body: serde_json::Value) -> Result<(), Error> {
        let path = format!("/cluster/{verb}");
        self.call("POST", &path, Some(body.to_string()))
            .await
            .map(drop)
    }

    async fn change(&self, id: &str, verb: &str, body: Option<String>) -> Result<Bytes, Error> {
        if id.is_empty() || !id.bytes().all(|octet| octet.is_ascii_alphanumeric()) {
            return Err(Error::invalid(format!("{id:?} is not an access key")));
        }
        self.call("POST", &format!("/keys/{id}/{verb}"), body).await
    }

    async fn call(&self, method: &str, path: &str, body: Option<String>) -> Result<Bytes, Error> {
        let is_write = method != "GET";
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "fader")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| Error::caused(ErrorKind::Invalid, path, error))?;
        let plan = Plan {
            lane: WindowKey {
                host: "".into(),
                class: "control",
            },
            is_write,
            is_repeatable: false,
            limits: LIMITS,
            tally: None,
        };
        let reply = self.http.call(&self.pool, plan, request).await?;
        if reply.status.is_success() {
            return Ok(reply.body);
        }
        let Refused { error, code } = refused(&reply.body);
        let reason = || reply.status.canonical_reason().unwrap_or_default();
        let kind = ErrorKind::Refused {
            status: reply.status.as_u16(),
            code: code.unwrap_or_else(|| reason().to_owned()),
            message: error,
            request_id: String::new(),
        };
        Err(Error::new(kind, format!("control {path}")))
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey")
            .field("id", &self.id)
            .field("account", &self.account)
            .finish()
    }
}

/// Where a domain is. Neither an account nor the name of a domain has other characters.
fn path_of(name: Name<'_>) -> Result<String, Error> {
    let (account, collection) = (name.account.0.as_str(), name.name);
    let root = match name.kind {
        Kind::Domain => "domains",
        Kind::Queue => "queues",
        Kind::Bucket => "buckets",
        Kind::Counter => {
            return Err(Error::invalid(format!("{collection:?} has no mode")));
        }
    };
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"_.-".contains(&octet);
    for part in [account, collection] {
        let is_step = [".", ".."].contains(&part);
        if part.is_empty() || is_step || !part.bytes().all(is_plain) {
            return Err(Error::invalid(format!(
                "{part:?} is no account or domain, and no queue or bucket"
            )));
        }
    }
    Ok(format!("/{root}/{account}/{collection}"))
}

/// A preference as it travels; empty for none.
fn shown(preference: Option<DefaultConsistency>) -> String {
    preference.map_or_else(String::new, |preference| preference.to_string())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    // The error's text may quote the reply, and with it a secret: it is not passed on.
    serde_json::from_slice(body).map_err(|_| Error::malformed("control reply is not as agreed"))
}

/// Why an order is refused.
#[derive(Deserialize)]
struct Refused {
    error: String,
    /// One of [`fader_services::ErrorCode`]; an older server tells none.
    code: Option<String>,
}

/// A refusal in JSON, or the text itself.
fn refused(body: &[u8]) -> Refused {
    serde_json::from_slice(body).unwrap_or_else(|_| Refused {
        error: String::from_utf8_lossy(body).trim().to_owned(),
        code: None,
    })
}
