//! Which bucket and which key a request is about: by its path, or by its host.
//!
//! ```text
//! http://host/bucket/key            path style
//! http://bucket.domain/key          `domain` is one of the server's (`--s3-domain`)
//! ```
//!
//! Invariants:
//! - SPLACE-1 a path is decoded once. Dot segments, empty segments and encoded slashes are bytes of
//!   the key, as AWS takes them: nothing is a folder here.

use crate::percent::{self, Malformed};
use crate::s3::fault::Fault;

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The bucket; empty of the service as a whole.
    pub(crate) bucket: String,
    /// The key; empty of a bucket as a whole.
    pub(crate) key: String,
    /// Whether the host names the bucket.
    pub(crate) is_in_host: bool,
    /// The path as signatures cover it: decoded and encoded again.
    pub(crate) signed_path: String,
}

impl Place {
    /// Reads the path of a URI and the `Host` header.
    ///
    /// # Errors
    /// InvalidURI when the path cannot be decoded.
    pub(crate) fn read(path: &str, host: &str, domains: &[String]) -> Result<Place, Fault> {
        let decoded = percent::decode_path(path).map_err(|why| invalid(path, why))?;
        let mut signed = Vec::with_capacity(path.len());
        for (at, part) in decoded.split('/').enumerate() {
            if 0 < at {
                signed.push(b'/');
            }
            percent::encode(part, &mut signed);
        }
        let signed_path = String::from_utf8(signed).unwrap_or_default();
        let rest = decoded.strip_prefix('/').unwrap_or(&decoded);
        let (bucket, key, is_in_host) = match bucket_of(host, domains) {
            Some(bucket) => (bucket, rest.to_owned(), true),
            None => match rest.split_once('/') {
                Some((bucket, key)) => (bucket.to_owned(), key.to_owned(), false),
                None => (rest.to_owned(), String::new(), false),
            },
        };
        Ok(Place {
            bucket,
            key,
            is_in_host,
            signed_path,
        })
    }

    /// What is shown as the resource of an error.
    pub(crate) fn resource(&self) -> String {
        match self.key.is_empty() {
            true => format!("/{}", self.bucket),
            false => format!("/{}/{}", self.bucket, self.key),
        }
    }
}

fn invalid(path: &str, why: Malformed) -> Fault {
    let message = match why {
        Malformed::Percent => "Couldn't parse the specified URI.",
        Malformed::Utf8 => "Couldn't parse the specified URI: it is not UTF-8.",
    };
    Fault::new("InvalidURI", 400, message).with("URI", path)
}

/// The bucket that a host names, below one of the domains.
pub(crate) fn bucket_of(host: &str, domains: &[String]) -> Option<String> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    domains.iter().find_map(|domain| {
        let at = name.len().checked_sub(domain.len())?;
        let (bucket, end) = name.split_at_checked(at)?;
        let bucket = match end.eq_ignore_ascii_case(domain) {
            true => bucket.strip_suffix('.')?.to_ascii_lowercase(),
            false => return None,
        };
        (!bucket.is_empty() && !is_service(&bucket)).then_some(bucket)
    })
}

/// Names below a domain that vendors' tools give the services themselves.
fn is_service(name: &str) -> bool {
    matches!(name, "s3" | "sqs" | "sdb") || name.starts_with("s3.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, host: &str) -> Place {
        Place::read(path, host, &["localhost".to_owned()]).expect("it is a place")
    }

    /// It shows SPLACE-1.
    #[test]
    fn a_bucket_stands_in_the_path_or_in_the_host() {
        for (path, host, bucket, key) in [
            ("/", "127.0.0.1:4566", "", ""),
            ("/b", "localhost:4566", "b", ""),
            ("/b/", "localhost", "b", ""),
            ("/b/k", "localhost", "b", "k"),
            ("/b//k/../x/", "[::1]:4566", "b", "/k/../x/"),
            ("/k/l", "bucket.localhost:4566", "bucket", "k/l"),
            ("/", "My.Bucket.LocalHost", "my.bucket", ""),
            ("/b/k", "s3.localhost", "b", "k"),
            ("/b/k", "sqs.localhost", "b", "k"),
            ("/b/a%2Fb+c%20d%C3%A9", "localhost", "b", "a/b+c dé"),
        ] {
            let place = read(path, host);
            assert_eq!(
                (&*place.bucket, &*place.key),
                (bucket, key),
                "{path} {host}"
            );
        }
    }

    #[test]
    fn the_path_is_signed_as_it_is_encoded_again() {
        let signed = |path| read(path, "localhost").signed_path;
        assert_eq!(signed("/b/a'(1)*"), "/b/a%27%281%29%2A");
        assert_eq!(signed("/b/%41%2f~"), "/b/A/~");
    }

    #[test]
    fn undecodable_input_is_refused() {
        for path in ["/b/%", "/b/%f", "/b/%FF"] {
            let fault = Place::read(path, "localhost", &[]).expect_err("it is none");
            assert_eq!((fault.code, fault.status), ("InvalidURI", 400), "{path}");
        }
    }
}
