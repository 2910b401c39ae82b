//! Rules about ids: each on a text that breaks it and on one that does not.

use super::diagnostics;
use crate::tidy::{File, ids};

const WAL: (&str, &str) = (
    "crates/gateway/src/wal.rs",
    "//! A log.\n//!\n//! - WAL-1 a record is whole,\n//!   or void. Why: see there.\n\
     //! - I4 is kept.\n",
);

#[test]
fn an_id_has_one_definition() {
    let user = (
        "crates/gateway/src/f.rs",
        "//! F (WAL-1, I4). UTF-8, S3, SDB-6.3.\n",
    );
    assert!(diagnostics(&[WAL, user]).is_empty());
    let twice = (
        "crates/gateway/src/x.rs",
        "//! X.\n//! - WAL-1 something else.\n",
    );
    assert_eq!(
        diagnostics(&[WAL, twice]),
        ["crates/gateway/src/x.rs:2: `WAL-1` is defined at crates/gateway/src/wal.rs:3, too"]
    );
    let none = (
        "crates/gateway/src/x.rs",
        "//! X.\n//! It rests on WAL-2.\n",
    );
    assert_eq!(
        diagnostics(&[WAL, none]),
        ["crates/gateway/src/x.rs:2: no text defines `WAL-2`"]
    );
}

#[test]
fn pages_of_the_protocol_define_ids() {
    let path = "docs/internals/protocol/failures.md";
    let page = "* **JN-4 Filling.** See HOLE-1 and G1.\n\n**G1. Reads.** Fine.\n\n\
                | id | what |\n|---|---|\n| HOLE-1 | a hole |\n";
    assert!(diagnostics(&[(path, page)]).is_empty());
    let page = "* **JN-4 Filling.** See HOLE-1.\n";
    assert_eq!(
        diagnostics(&[(path, page)]),
        [format!("{path}:1: no text defines `HOLE-1`")]
    );
}

#[test]
fn the_page_lists_statements_and_tests() {
    let file = |path: &str, text: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let test = "//! WAL-1.\n";
    let files = [
        file(WAL.0, WAL.1),
        file("crates/gateway/tests/it/f.rs", test),
    ];
    let page = ids::page(&files);
    let row = "| WAL-1 | a record is whole, or void. | `crates/gateway/src/wal.rs` | \
               `crates/gateway/tests/it/f.rs` |\n";
    assert!(page.contains(row), "{page}");
}
