//! What commands say that fail.

use anyhow::{Context as _, anyhow};
use fader_node::coordinator::Outage;

use super::*;

fn open(code: ErrorCode) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let settings = fader_node::Settings::new(folder.path().to_owned());
    let (node, _) = fader_node::Node::open(settings.clone()).unwrap();
    let error = fader_node::Node::open(settings).err().unwrap();
    assert_eq!(error.code, code);
    drop(node);
    Report::of(&anyhow::Error::from(error).context("cannot open ./fader-data"))
}

#[tokio::test]
async fn a_failure_says_what_happened_its_code_and_what_to_do() {
    let report = open(ErrorCode::DataLocked);
    let expected = format!(
        "error: cannot open ./fader-data: process {} holds its lock\n  \
         code: data-locked\n  \
         do: stop that `fader serve`, or name another folder with --data",
        std::process::id()
    );
    assert_eq!(report.to_string(), expected);
}

#[test]
fn a_failure_has_the_code_of_its_first_cause_that_has_one() {
    use fader_cloud::{Error as Cloud, ErrorKind as Kind};
    let io = |kind| io::Error::from(kind);
    let cloud = |kind| Cloud::new(kind, "asking");
    let later = Kind::Unavailable { retry_after: None };
    for (error, code) in [
        (anyhow!("a text"), ErrorCode::Failed),
        (
            io(io::ErrorKind::PermissionDenied).into(),
            ErrorCode::IoFailed,
        ),
        (io(io::ErrorKind::NotFound).into(), ErrorCode::NotFound),
        (
            io(io::ErrorKind::ConnectionRefused).into(),
            ErrorCode::Unavailable,
        ),
        (cloud(Kind::NotFound).into(), ErrorCode::NotFound),
        (
            cloud(Kind::Precondition).into(),
            ErrorCode::PreconditionFailed,
        ),
        (cloud(later).into(), ErrorCode::Unavailable),
        (cloud(Kind::Ambiguous).into(), ErrorCode::OutcomeUnknown),
        (cloud(Kind::Invalid).into(), ErrorCode::CallInvalid),
        (cloud(Kind::Denied).into(), ErrorCode::AccessDenied),
        (cloud(Kind::Malformed).into(), ErrorCode::AnswerMalformed),
        (
            Refusal::KeyExists("AKIA".to_owned()).into(),
            ErrorCode::AlreadyExists,
        ),
        (
            CoordinatorError::from(Outage::Unwatched).into(),
            ErrorCode::CoordinatorUnavailable,
        ),
        (
            fader_mapreduce::Failure::Job("a program failed four times".to_owned()).into(),
            ErrorCode::JobFailed,
        ),
        (
            invalid::<()>("a flag is missing").unwrap_err(),
            ErrorCode::CallInvalid,
        ),
        (
            Failure::of(
                ErrorCode::ConfigurationInvalid,
                io(io::ErrorKind::NotFound).into(),
            )
            .into(),
            ErrorCode::ConfigurationInvalid,
        ),
    ] {
        let within = Err::<(), _>(error).context("beginning").unwrap_err();
        assert_eq!(Report::of(&within).code, code, "{within:#}");
    }
}

#[test]
fn advice_takes_the_place_of_what_the_reference_says() {
    let error = fader_cloud::Error::new(fader_cloud::ErrorKind::NotFound, "no queue work");
    let advised = Failure::advised(error.into(), "`fader sqs queues` lists the queues");
    let report = Report::of(&anyhow::Error::from(advised));
    assert_eq!(
        report.to_string(),
        "error: no queue work\n  code: not-found\n  do: `fader sqs queues` lists the queues"
    );
}
