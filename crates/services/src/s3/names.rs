//! The rules of buckets' names.

use crate::s3::error::{Code, Error};

const BYTES: std::ops::RangeInclusive<usize> = 3..=63;
const BEGINNINGS: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];
const ENDS: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];
/// Paths of the server.
const RESERVED: [&str; 3] = ["healthz", "metrics", "console"];

/// Refuses a name that no bucket can have.
///
/// # Errors
/// InvalidBucketName.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_of_labels = name.split('.').all(|label| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter()
            .all(|end| end.is_some_and(|byte| is_letter(*byte)))
            && bytes.iter().all(|byte| is_letter(*byte) || *byte == b'-')
    });
    let is_refused = BEGINNINGS.iter().any(|it| name.starts_with(it))
        || ENDS.iter().any(|it| name.ends_with(it))
        || RESERVED.contains(&name)
        || name.parse::<std::net::Ipv4Addr>().is_ok();
    match BYTES.contains(&name.len()) && is_of_labels && !is_refused {
        true => Ok(()),
        false => Err(Error::of(Code::InvalidBucketName)),
    }
}
