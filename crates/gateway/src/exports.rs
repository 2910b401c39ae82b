//! The wire format of `simpledbv2` (2025-09-26): JSON by `POST /v2/NAME`.
//!
//! Deliberately absent: what the requests mean (`services::exports`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use fader_services::catalog::AccountId;
use fader_services::exports::{
    Code, Command, Error, Export, Finding, List, Place, Reply, Start, State, arn,
};
use serde_json::{Map, Value, json};

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub(crate) enum Operation {
    StartDomainExport,
    GetExport,
    ListExports,
}

const TOKEN_BYTES_MAX: usize = 2048;

impl Operation {
    /// The operation of this path.
    pub(crate) fn of(path: &str) -> Option<Operation> {
        let all = [
            Operation::StartDomainExport,
            Operation::GetExport,
            Operation::ListExports,
        ];
        let name = path.strip_prefix("/v2/")?;
        all.into_iter().find(|it| it.name() == name)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::StartDomainExport => "StartDomainExport",
            Operation::GetExport => "GetExport",
            Operation::ListExports => "ListExports",
        }
    }
}

/// The members of a request.
struct Members(Map<String, Value>);

impl Members {
    fn text(&self, name: &str) -> Result<Option<String>, Error> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Error::invalid(name)),
        }
    }

    fn required(&self, name: &str) -> Result<String, Error> {
        self.text(name)?.ok_or_else(|| {
            let message = format!("The request must contain the parameter {name}.");
            Error::new(Code::InvalidParameterValue, message)
        })
    }

    /// One that is not empty, if it is there.
    fn filled(&self, name: &str) -> Result<Option<String>, Error> {
        match self.text(name)? {
            Some(text) if text.is_empty() => Err(Error::invalid(name)),
            text => Ok(text),
        }
    }

    fn count(&self, name: &str) -> Result<Option<usize>, Error> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_u64().and_then(|it| usize::try_from(it).ok());
                number.map(Some).ok_or_else(|| Error::invalid(name))
            }
        }
    }
}

/// Reads a request. `seed` is random; a token is made of it where the client names none.
///
/// # Errors
/// InvalidParameterValueException, InvalidParameterCombinationException, InvalidNextTokenException.
pub(crate) fn parse(
    operation: Operation,
    body: &[u8],
    seed: u128,
    region: String,
) -> Result<Command, Error> {
    let members = match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Members(members),
        _ if body.is_empty() => Members(Map::new()),
        _ => {
            let message = "The body is not a JSON object.";
            return Err(Error::new(Code::InvalidParameterValue, message));
        }
    };
    Ok(match operation {
        Operation::StartDomainExport => {
            check_encryption(&members)?;
            let token = members.text("clientToken")?;
            Command::Start(Start {
                seed,
                token: token.unwrap_or_else(|| format!("{seed:032x}")),
                domain: members.required("domainName")?,
                region,
                place: Place {
                    bucket: members.required("s3Bucket")?,
                    prefix: members.filled("s3KeyPrefix")?,
                    owner: members.text("s3BucketOwner")?,
                },
            })
        }
        Operation::GetExport => Command::Get(members.required("exportArn")?),
        Operation::ListExports => {
            let next = members.text("nextToken")?.filter(|it| !it.is_empty());
            let next = next.map(|token| match token.len() <= TOKEN_BYTES_MAX {
                true => BASE64.decode(token).map_err(|_| invalid_next()),
                false => Err(invalid_next()),
            });
            Command::List(List {
                domain: members.filled("domainName")?,
                count: members.count("maxResults")?,
                next: next.transpose()?.map(Into::into),
            })
        }
    })
}

fn invalid_next() -> Error {
    let message = "The specified next token is not valid.";
    Error::new(Code::InvalidNextToken, message)
}

/// Objects of Fader are not encrypted at rest: what asks for it is refused.
fn check_encryption(members: &Members) -> Result<(), Error> {
    let algorithm = members.text("s3SseAlgorithm")?;
    let key = members.filled("s3SseKmsKeyId")?;
    match (algorithm.as_deref(), key) {
        (None | Some("AES256"), Some(_)) => Err(Error::new(
            Code::InvalidParameterCombination,
            "s3SseKmsKeyId goes with the s3SseAlgorithm KMS only.",
        )),
        (None, None) => Ok(()),
        (Some("AES256" | "KMS"), _) => Err(Error::new(
            Code::InvalidParameterValue,
            "The value of the parameter s3SseAlgorithm is not valid: objects are not encrypted \
             here.",
        )),
        (Some(_), _) => Err(Error::invalid("s3SseAlgorithm")),
    }
}

/// Seconds since 1970.
#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds since 1970 have fewer than 53 bits"
)]
fn seconds(ms: u64) -> Value {
    json!(ms as f64 / 1000.0)
}

fn status(state: &State) -> &'static str {
    match state {
        State::Pending => "PENDING",
        State::Running => "IN_PROGRESS",
        State::Ended(Finding::Whole(_)) => "SUCCEEDED",
        State::Ended(Finding::Failed(_)) => "FAILED",
    }
}

/// The body of a reply.
pub(crate) fn render(operation: Operation, account: &AccountId, reply: &Reply) -> Value {
    match (operation, reply) {
        (Operation::StartDomainExport, Reply::Export(export)) => json!({
            "clientToken": export.token,
            "exportArn": arn(account, export),
            "requestedAt": seconds(export.requested_ms),
        }),
        (_, Reply::Export(export)) => whole(account, export),
        (_, Reply::Page((exports, next))) => {
            let summaries: Vec<Value> = exports.iter().map(|it| summary(account, it)).collect();
            let mut page = json!({ "exportSummaries": summaries });
            if let Some(next) = next {
                page["nextToken"] = json!(BASE64.encode(next));
            }
            page
        }
        (_, Reply::Due(_) | Reply::Done) => json!({}),
    }
}

fn summary(account: &AccountId, export: &Export) -> Value {
    json!({
        "exportArn": arn(account, export),
        "exportStatus": status(&export.state),
        "requestedAt": seconds(export.requested_ms),
        "domainName": export.domain,
    })
}

fn whole(account: &AccountId, export: &Export) -> Value {
    let mut shown = summary(account, export);
    shown["clientToken"] = json!(export.token);
    shown["s3Bucket"] = json!(export.place.bucket);
    shown["exportDataCutoffTime"] = seconds(export.requested_ms);
    if let Some(prefix) = &export.place.prefix {
        shown["s3KeyPrefix"] = json!(prefix);
    }
    if let Some(owner) = &export.place.owner {
        shown["s3BucketOwner"] = json!(owner);
    }
    match &export.state {
        State::Ended(Finding::Whole((items, manifest))) => {
            shown["itemsCount"] = json!(items);
            shown["exportManifest"] = json!(manifest);
        }
        State::Ended(Finding::Failed((code, message))) => {
            shown["failureCode"] = json!(code);
            shown["failureMessage"] = json!(message);
        }
        State::Pending | State::Running => {}
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(body: &str) -> Result<Command, Error> {
        let region = "us-east-1".to_owned();
        parse(Operation::StartDomainExport, body.as_bytes(), 7, region)
    }

    #[test]
    fn paths_name_operations() {
        assert_eq!(Operation::of("/v2/GetExport"), Some(Operation::GetExport));
        for path in ["/", "/v2/", "/v2/getexport", "/GetExport", "/v2/GetExport/"] {
            assert_eq!(Operation::of(path), None, "{path}");
        }
    }

    #[test]
    fn a_request_is_read_with_all_its_members() {
        let body = r#"{"clientToken":"t","domainName":"d","s3Bucket":"b1b","s3KeyPrefix":"p",
            "s3BucketOwner":"123456789012","unknown":1}"#;
        let expected = Command::Start(Start {
            seed: 7,
            token: "t".to_owned(),
            domain: "d".to_owned(),
            region: "us-east-1".to_owned(),
            place: Place {
                bucket: "b1b".to_owned(),
                prefix: Some("p".to_owned()),
                owner: Some("123456789012".to_owned()),
            },
        });
        assert_eq!(start(body), Ok(expected));
    }

    #[test]
    fn impossible_requests_are_refused_by_their_code() {
        let code = |body: &str| start(body).expect_err("it is refused").code;
        for body in [
            "[]",
            "{",
            r#"{"s3Bucket":"bbb"}"#,
            r#"{"domainName":1,"s3Bucket":"bbb"}"#,
            r#"{"domainName":"d","s3Bucket":"bbb","s3SseAlgorithm":"AES256"}"#,
            r#"{"domainName":"d","s3Bucket":"bbb","s3SseAlgorithm":"KMS","s3SseKmsKeyId":"k"}"#,
            r#"{"domainName":"d","s3Bucket":"bbb","s3SseAlgorithm":"DES"}"#,
        ] {
            assert_eq!(code(body), Code::InvalidParameterValue, "{body}");
        }
        let body = r#"{"domainName":"d","s3Bucket":"bbb","s3SseKmsKeyId":"k"}"#;
        assert_eq!(code(body), Code::InvalidParameterCombination);
        let body = br#"{"nextToken":"!"}"#;
        let listed = parse(Operation::ListExports, body, 0, String::new());
        assert_eq!(
            listed.expect_err("it is refused").code,
            Code::InvalidNextToken
        );
    }
}
