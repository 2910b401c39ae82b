//! Permissions at a cloud's services for another account or user: a bucket policy at S3, and a
//! permission of each queue at SQS.
//!
//! Invariants:
//! - PERM-1 statements of a policy that this module did not write stay as they are.
//!
//! The policy is read and replaced: a change of another client between the two is lost, since S3
//! has no condition for it. Taking permissions away is left to the service's own tools.

use std::str::FromStr;

use bytes::Bytes;
use fader_cloud::Permissions;
use fader_services::catalog::AccountId;
use hyper::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind};
use crate::location::{BucketLocation, Location, Provider, ServiceLocation};
use crate::open::{Options, SERVICES, sqs_of};
use crate::s3::{S3, S3Reply, S3Request};
use crate::sqs::Sqs;

/// Bytes of a statement's name that are the hash of whom and what it is about.
const SID_BYTES: usize = 8;

/// Who gets permissions at a service: an account of twelve digits, or the ARN of a user or role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    arn: String,
    account: String,
}

impl Principal {
    /// Its account, of twelve digits.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// Whether it is less than its whole account.
    pub fn is_part(&self) -> bool {
        !self.arn.ends_with(":root")
    }
}

impl FromStr for Principal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if AccountId::is_valid(text) {
            let (arn, account) = (format!("arn:aws:iam::{text}:root"), text.to_owned());
            return Ok(Principal { arn, account });
        }
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        match parts[..] {
            ["arn", _, "iam" | "sts", "", account, name]
                if AccountId::is_valid(account) && !name.is_empty() =>
            {
                let (arn, account) = (text.to_owned(), account.to_owned());
                Ok(Principal { arn, account })
            }
            _ => Err("an account of twelve digits, or arn:aws:iam::ACCOUNT:user/NAME".to_owned()),
        }
    }
}

/// What became of permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permitted {
    /// What was set, a line each.
    pub set: Vec<String>,
    /// What was not, a line each with the reason.
    pub unset: Vec<String>,
}

/// Gives a principal permissions at the services of the cloud at `url`. What a service does not
/// have, or refuses, is told in the result.
///
/// # Errors
/// `Invalid`: the URL or the environment.
pub async fn permit(
    url: &str,
    options: &Options,
    principal: &Principal,
    permissions: &Permissions,
) -> fader_cloud::Result<Permitted> {
    crate::error::in_write(permit_all(url, options, principal, permissions).await)
}

async fn permit_all(
    url: &str,
    options: &Options,
    principal: &Principal,
    permissions: &Permissions,
) -> Result<Permitted, Error> {
    let mut done = Permitted::default();
    let mut permissions = permissions.clone();
    let are_queues_in_bucket = options.queues == ServiceLocation::Bucket;
    let has_queues = !permissions.sends.is_empty() || !permissions.receives.is_empty();
    if are_queues_in_bucket {
        permissions.reads.push(SERVICES.to_owned());
        let writes = has_queues.then(|| SERVICES.to_owned());
        permissions.writes.extend(writes);
    }
    match Location::parse(url)? {
        Location::Bucket(location) if location.provider == Provider::S3 => {
            let s3 = options.s3(&location)?;
            let what = format!("the policy of bucket {:?}", location.name);
            match add_statements(&s3, &location, principal, &permissions).await {
                Ok(()) => done.set.push(what),
                Err(error) => done.unset.push(format!("{what}: {error}")),
            }
        }
        location => {
            let what = format!("access to {location}: it has no bucket policy; use its own tools");
            done.unset.push(what);
        }
    }
    if are_queues_in_bucket {
        return Ok(done);
    }
    let (prefix, sqs) = sqs_of(&options.queues, options)?;
    let receives = permissions.receives.iter().map(|queue| (queue, true));
    let sends = permissions.sends.iter().map(|queue| (queue, false));
    for (queue, is_receiver) in receives.chain(sends) {
        let queue = format!("{prefix}{queue}");
        let what = format!("permission of queue {queue:?}");
        match add_permission(&sqs, &queue, principal, is_receiver).await {
            Ok(()) => done.set.push(what),
            Err(error) => done.unset.push(format!("{what}: {error}")),
        }
    }
    if principal.is_part() && has_queues {
        let account = principal.account();
        done.unset.push(format!(
            "a permission of queues for one user or role: SQS gives it to the account {account}, \
             whose own policies must give it to the user"
        ));
    }
    Ok(done)
}

/// Puts the statements of these permissions into the policy of a bucket.
async fn add_statements(
    s3: &S3,
    location: &BucketLocation,
    principal: &Principal,
    permissions: &Permissions,
) -> Result<(), Error> {
    let query = [("policy", "")];
    let read = S3Request {
        query: &query,
        ..S3Request::new(Method::GET, &location.name, "")
    };
    let policy = match s3.call(read).await {
        Ok(found) => parsed(&found)?,
        Err(error) if error.code() == Some("NoSuchBucketPolicy") => {
            json!({ "Version": "2012-10-17", "Statement": [] })
        }
        Err(error) => return Err(error),
    };
    let policy = with_statements(policy, statements(location, principal, permissions))?;
    let headers = [("content-type", "application/json")];
    let write = S3Request {
        query: &query,
        headers: &headers,
        body: Bytes::from(policy.to_string()),
        ..S3Request::new(Method::PUT, &location.name, "")
    };
    s3.call(write).await.map(drop)
}

fn parsed(reply: &S3Reply) -> Result<Value, Error> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        let context = "the bucket's policy is not JSON";
        Error::caused(ErrorKind::Malformed, context, error)
    })
}

/// A policy with these statements in place of those of the same names.
fn with_statements(mut policy: Value, new: Vec<Value>) -> Result<Value, Error> {
    let statements = &mut policy["Statement"];
    if statements.is_object() {
        *statements = json!([statements.take()]);
    }
    let Some(statements) = statements.as_array_mut() else {
        return Err(Error::malformed("the bucket's policy has no statements"));
    };
    statements.retain(|one| new.iter().all(|new| new["Sid"] != one["Sid"]));
    statements.extend(new);
    Ok(policy)
}

/// The statements of permissions: reads, lists and writes.
fn statements(
    location: &BucketLocation,
    principal: &Principal,
    permissions: &Permissions,
) -> Vec<Value> {
    let bucket = format!("arn:aws:s3:::{}", location.name);
    let objects = |folders: &[String]| -> Vec<String> {
        let folders = folders.iter();
        let objects = folders.map(|folder| match location.prefix.trim_matches('/') {
            "" => format!("{bucket}/{folder}/*"),
            prefix => format!("{bucket}/{prefix}/{folder}/*"),
        });
        objects.collect()
    };
    let statement = |kind: &str, actions: Value, resources: Value| {
        let about = [&*location.prefix, &principal.arn, kind].join("\n");
        let hash = Sha256::digest(about.as_bytes());
        let hash = const_hex::encode(&hash[..SID_BYTES]);
        json!({
            "Sid": format!("Fader{kind}{hash}"),
            "Effect": "Allow",
            "Principal": { "AWS": principal.arn },
            "Action": actions,
            "Resource": resources,
        })
    };
    let mut all = Vec::new();
    if !permissions.reads.is_empty() {
        let reads = json!(objects(&permissions.reads));
        all.push(statement("Read", json!("s3:GetObject"), reads));
        // Of the whole bucket: with a condition an absent object is answered 403 instead of 404.
        all.push(statement("List", json!("s3:ListBucket"), json!(bucket)));
    }
    if !permissions.writes.is_empty() {
        let actions = json!(["s3:PutObject", "s3:DeleteObject"]);
        let writes = json!(objects(&permissions.writes));
        all.push(statement("Write", actions, writes));
    }
    all
}

/// Adds a permission to a queue, unless it is there.
async fn add_permission(
    sqs: &Sqs,
    queue: &str,
    principal: &Principal,
    is_receiver: bool,
) -> Result<(), Error> {
    let url = sqs.queue_url(queue).await?;
    let body = permission(&url, principal, is_receiver);
    match sqs.call("AddPermission", true, &body).await {
        Ok(_) => Ok(()),
        // An earlier call did it.
        Err(error) if error.to_string().contains("Already exists") => Ok(()),
        Err(error) => Err(error),
    }
}

/// The body of AddPermission.
fn permission(url: &str, principal: &Principal, is_receiver: bool) -> Value {
    let (kind, actions): (&str, &[&str]) = match is_receiver {
        false => ("send", &["SendMessage", "GetQueueUrl"]),
        true => (
            "use",
            &[
                "SendMessage",
                "ReceiveMessage",
                "DeleteMessage",
                "ChangeMessageVisibility",
                "GetQueueAttributes",
                "GetQueueUrl",
            ],
        ),
    };
    let account = principal.account();
    json!({
        "QueueUrl": url,
        "Label": format!("fader-{kind}-{account}"),
        "AWSAccountIds": [account],
        "Actions": actions,
    })
}

#[cfg(test)]
mod tests;
