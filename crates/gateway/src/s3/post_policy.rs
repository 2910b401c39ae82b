//! The policy of a form: which fields it allows, how large the file may be, and until when.
//!
//! Invariants:
//! - SPOLICY-1 every condition holds, and every field is named by one, but for those that sign and
//!   those that begin with `x-ignore-`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::s3::fault::{Fault, access_denied, too_large};
use crate::s3::form::Fields;
use crate::signature::http_date;

/// Fields that no condition has to name.
const FREE: [&str; 6] = [
    "awsaccesskeyid",
    "file",
    "policy",
    "signature",
    "x-amz-signature",
    "x-amz-security-token",
];

/// The sizes that a file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    min: u64,
    max: u64,
}

impl Sizes {
    /// Any up to `max` bytes.
    pub(crate) fn up_to(max: u64) -> Sizes {
        Sizes { min: 0, max }
    }

    /// Refuses a file that has so many bytes already.
    ///
    /// # Errors
    /// EntityTooLarge.
    pub(crate) fn check_growing(self, size: u64) -> Result<(), Fault> {
        match size <= self.max {
            true => Ok(()),
            false => Err(too_large(size, self.max)),
        }
    }

    /// Refuses a whole file that is too small.
    ///
    /// # Errors
    /// EntityTooSmall.
    pub(crate) fn check_whole(self, size: u64) -> Result<(), Fault> {
        match self.min <= size {
            true => Ok(()),
            false => Err(Fault::new(
                "EntityTooSmall",
                400,
                "Your proposed upload is smaller than the minimum allowed size",
            )
            .with("ProposedSize", size.to_string())
            .with("MinSizeAllowed", self.min.to_string())),
        }
    }
}

enum Condition {
    Equal(String, String),
    StartsWith(String, String),
    Sizes(Sizes),
}

/// Compares the fields of a form with its policy; the sizes that its file may have.
///
/// # Errors
/// The policy is malformed or over, or a condition does not hold.
pub(crate) fn check(
    policy: &str,
    bucket: &str,
    fields: &Fields,
    now_s: i64,
    size_max: u64,
) -> Result<Sizes, Fault> {
    let document = decode(policy)?;
    let expiration = document.get("expiration").and_then(Value::as_str);
    let is_iso = |text: &&str| text.contains('T') && text.ends_with('Z');
    let expiration = expiration.filter(is_iso).and_then(http_date);
    let expiration = expiration.ok_or_else(|| malformed("it has no expiration"))?;
    if expiration < now_s {
        return Err(denied("Policy expired."));
    }
    let conditions = document.get("conditions").and_then(Value::as_array);
    let conditions = conditions.ok_or_else(|| malformed("it has no list of conditions"))?;
    let mut read = Vec::with_capacity(conditions.len());
    for condition in conditions {
        read_condition(condition, &mut read)?;
    }
    let mut sizes = Sizes::up_to(size_max);
    let mut named: Vec<&str> = Vec::new();
    for condition in &read {
        let (name, is_met) = match condition {
            Condition::Sizes(it) => {
                sizes.min = sizes.min.max(it.min);
                sizes.max = sizes.max.min(it.max);
                continue;
            }
            Condition::Equal(name, value) => (name, value_of(name, bucket, fields) == Some(value)),
            Condition::StartsWith(name, start) => {
                let value = value_of(name, bucket, fields);
                (name, value.is_some_and(|value| starts(name, value, start)))
            }
        };
        if !is_met {
            return Err(denied(&format!(
                "Invalid according to Policy: Policy Condition failed: {name}"
            )));
        }
        named.push(name);
    }
    for (name, _) in &fields.pairs {
        let name = name.to_ascii_lowercase();
        let is_free = FREE.contains(&&*name) || name.starts_with("x-ignore-");
        if !is_free && !named.contains(&&*name) {
            return Err(denied(&format!(
                "Invalid according to Policy: Extra input fields: {name}"
            )));
        }
    }
    Ok(sizes)
}

fn decode(policy: &str) -> Result<Value, Fault> {
    let stripped: String = policy.split_whitespace().collect();
    let bytes = BASE64
        .decode(stripped)
        .map_err(|_| malformed("it is not base64"))?;
    let document = serde_json::from_slice(&bytes);
    document.map_err(|_| malformed("it is not JSON"))
}

fn read_condition(condition: &Value, out: &mut Vec<Condition>) -> Result<(), Fault> {
    match condition {
        Value::Object(pairs) if pairs.len() != 1 => {
            Err(malformed("a condition that is an object has not one pair"))
        }
        Value::Object(pairs) => {
            for (name, value) in pairs {
                let value = value
                    .as_str()
                    .ok_or_else(|| malformed("a value is no string"))?;
                out.push(Condition::Equal(
                    name.to_ascii_lowercase(),
                    value.to_owned(),
                ));
            }
            Ok(())
        }
        Value::Array(parts) => {
            let [kind, first, second] = &parts[..] else {
                return Err(malformed("a condition has not three parts"));
            };
            out.push(read_three(kind, first, second)?);
            Ok(())
        }
        _ => Err(malformed("a condition is neither a list nor an object")),
    }
}

fn read_three(kind: &Value, first: &Value, second: &Value) -> Result<Condition, Fault> {
    let kind = kind.as_str().unwrap_or_default().to_ascii_lowercase();
    if kind == "content-length-range" {
        let number = |value: &Value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        let sizes = number(first).zip(number(second));
        let (min, max) = sizes.ok_or_else(|| malformed("a size is not a number"))?;
        return Ok(Condition::Sizes(Sizes { min, max }));
    }
    let name = first.as_str().and_then(|name| name.strip_prefix('$'));
    let name = name.ok_or_else(|| malformed("a condition names no field with $"))?;
    let value = second
        .as_str()
        .ok_or_else(|| malformed("a value is no string"))?;
    let pair = (name.to_ascii_lowercase(), value.to_owned());
    match &*kind {
        "eq" => Ok(Condition::Equal(pair.0, pair.1)),
        "starts-with" => Ok(Condition::StartsWith(pair.0, pair.1)),
        _ => Err(malformed("a condition is neither eq nor starts-with")),
    }
}

fn value_of<'a>(name: &str, bucket: &'a str, fields: &'a Fields) -> Option<&'a str> {
    match name {
        "bucket" => Some(bucket),
        name => fields.get(name),
    }
}

/// Whether a value starts so. Of types that are listed each does.
fn starts(name: &str, value: &str, start: &str) -> bool {
    match name {
        "content-type" => value.split(',').all(|it| it.trim().starts_with(start)),
        _ => value.starts_with(start),
    }
}

fn malformed(why: &str) -> Fault {
    let message = format!("Invalid Policy: {why}.");
    Fault::new("InvalidPolicyDocument", 400, message)
}

fn denied(message: &str) -> Fault {
    Fault {
        message: message.to_owned(),
        ..access_denied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_764_064_800;

    fn checked(policy: &str, pairs: &[(&str, &str)]) -> Result<Sizes, (&'static str, String)> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let fields = Fields {
            pairs: pairs.collect(),
            ..Fields::default()
        };
        let policy = BASE64.encode(policy);
        check(&policy, "b", &fields, NOW_S, 1000).map_err(|it| (it.code, it.message))
    }

    fn policy(conditions: &str) -> String {
        format!("{{\"expiration\":\"2031-01-01T00:00:00Z\",\"conditions\":[{conditions}]}}")
    }

    /// It shows SPOLICY-1.
    #[test]
    fn a_form_passes_when_every_condition_holds() {
        let policy = policy(
            "{\"bucket\":\"b\"},[\"starts-with\",\"$Key\",\"a/\"],[\"eq\",\"$acl\",\"private\"],\
             [\"content-length-range\",5,\"10\"],[\"starts-with\",\"$Content-Type\",\"image/\"]",
        );
        let fields = [
            ("key", "a/b"),
            ("acl", "private"),
            ("Content-Type", "image/png,image/gif"),
            ("policy", "x"),
            ("x-ignore-me", "1"),
        ];
        assert_eq!(checked(&policy, &fields), Ok(Sizes { min: 5, max: 10 }));
        for (at, value) in [(0, "b/a"), (1, "public-read"), (2, "image/png,text/css")] {
            let mut wrong = fields;
            wrong[at].1 = value;
            let refused = checked(&policy, &wrong).map_err(|it| it.0);
            assert_eq!(refused, Err("AccessDenied"), "{value}");
        }
        let mut more = fields.to_vec();
        more.push(("x-amz-meta-a", "1"));
        let refused = checked(&policy, &more).expect_err("it has a field too many");
        assert!(refused.1.contains("x-amz-meta-a"), "{refused:?}");
        let fewer = &fields[1..];
        assert!(checked(&policy, fewer).is_err());
    }

    #[test]
    fn policies_that_are_over_or_malformed_are_refused() {
        let over = "{\"expiration\":\"2020-01-01T00:00:00Z\",\"conditions\":[]}";
        assert_eq!(checked(over, &[]).map_err(|it| it.0), Err("AccessDenied"));
        for text in [
            "",
            "[]",
            "{\"expiration\":\"2031-01-01T00:00:00Z\"}",
            "{\"conditions\":[]}",
            &policy("1"),
            &policy("[\"eq\",\"key\",\"a\"]"),
            &policy("[\"like\",\"$key\",\"a\"]"),
            &policy("[\"content-length-range\",-1,2]"),
        ] {
            let outcome = checked(text, &[]).map_err(|it| it.0);
            assert_eq!(outcome, Err("InvalidPolicyDocument"), "{text}");
        }
    }

    #[test]
    fn sizes_are_judged_as_the_file_grows_and_at_its_end() {
        let sizes = Sizes { min: 2, max: 3 };
        assert!(sizes.check_growing(3).is_ok());
        assert_eq!(
            sizes.check_growing(4).map_err(|it| it.code),
            Err("EntityTooLarge")
        );
        assert_eq!(
            sizes.check_whole(1).map_err(|it| it.code),
            Err("EntityTooSmall")
        );
        assert!(sizes.check_whole(2).is_ok());
    }
}
