//! Anything that comes back as a handle, a token or a policy of queues: read or refused.

use crate::CollectionId;
use fader_fuzz::{Corpus, run};

use super::handle::{Receipt, show};
use super::{moving, queues};

#[test]
fn fuzz_handles() {
    let receipt = Receipt {
        era: 1,
        number: 7,
        receive: 2,
    };
    let (collection, secret) = (CollectionId(9), 5);
    let handle = show(&receipt.seal(collection, secret));
    let task = show(b"abc arn:aws:sqs:us-east-1:000000000001:q");
    let corpus = Corpus {
        seeds: &[handle.as_bytes(), task.as_bytes(), b"cXVldWU"],
        words: &[b"=", b"_", b"-", b"AAAA"],
    };
    run("handles", &corpus, |input| {
        let text = String::from_utf8_lossy(input);
        if let Some(opened) = Receipt::open(&text, collection, secret, true) {
            assert_eq!(opened, receipt, "{text} is none of ours");
        }
        let _ = Receipt::open(&text, collection, secret, false);
        let _ = queues::open_token(&text);
        let _ = moving::split_task_handle(&text);
    });
}

#[test]
fn fuzz_policies() {
    let seeds: Vec<&[u8]> = include_str!("fuzz.txt")
        .lines()
        .map(str::as_bytes)
        .collect();
    let corpus = Corpus {
        seeds: &seeds,
        words: &[
            b"[[[[[[[[",
            b"{\"a\":",
            b"\"*\"",
            b"null",
            b"/33",
            b"::1/128",
            b"NotPrincipal",
            b"1e999",
        ],
    };
    run("policies", &corpus, |input| {
        let text = String::from_utf8_lossy(input);
        let _ = crate::policy::Policy::parse(&text);
    });
}
