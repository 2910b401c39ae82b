//! Rules about ids: each on a text that breaks it and on one that does not.

use super::diagnostics;
use crate::tidy::{File, ids};

const WAL: (&str, &str) = (
    "crates/gateway/src/wal.rs",
    "//! A log.\n//!\n//! - WAL-1 a record is whole,\n//!   or void. Why: see there.\n\
     //! - I4 is kept.\n",
);

/// A test that shows the rule.
const TEST: (&str, &str) = ("crates/gateway/tests/it/wal.rs", "//! WAL-1, I4.\n");

#[test]
fn an_id_has_one_definition() {
    let user = (
        "crates/gateway/src/f.rs",
        "//! F (WAL-1, I4). UTF-8, S3, SDB-6.3.\n",
    );
    assert!(diagnostics(&[WAL, TEST, user]).is_empty());
    let twice = (
        "crates/gateway/src/x.rs",
        "//! X.\n//! - WAL-1 something else.\n",
    );
    assert_eq!(
        diagnostics(&[WAL, TEST, twice]),
        ["crates/gateway/src/x.rs:2: `WAL-1` is defined at crates/gateway/src/wal.rs:3, too"]
    );
    let none = (
        "crates/gateway/src/x.rs",
        "//! X.\n//! It rests on WAL-2.\n",
    );
    assert_eq!(
        diagnostics(&[WAL, TEST, none]),
        ["crates/gateway/src/x.rs:2: no text defines `WAL-2`"]
    );
}

#[test]
fn pages_of_the_protocol_define_ids() {
    let path = "docs/internals/protocol/failures.md";
    let page = "* **JN-4 Filling.** See HOLE-1 and G1.\n\n**G1. Reads.** Fine.\n\n\
                | id | what |\n|---|---|\n| HOLE-1 | a hole |\n";
    let shown = (
        "crates/simulator/src/check/fill.rs",
        "//! JN-4, HOLE-1, G1.\n",
    );
    assert!(diagnostics(&[(path, page), shown]).is_empty());
    let page = "* **JN-4 Filling.** See HOLE-1.\n";
    let shown = ("crates/simulator/src/check/fill.rs", "//! JN-4.\n");
    assert_eq!(
        diagnostics(&[(path, page), shown]),
        [format!("{path}:1: no text defines `HOLE-1`")]
    );
}

#[test]
fn an_id_is_shown() {
    let missing = "crates/gateway/src/wal.rs:3: no test, check or guard shows `WAL-1`";
    assert!(diagnostics(&[WAL]).iter().any(|it| it == missing));
    let comment = (
        "crates/gateway/src/f.rs",
        "//! F.\n\n/// WAL-1.\nfn f() {}\n",
    );
    assert!(diagnostics(&[WAL, comment]).iter().any(|it| it == missing));
    for (path, text) in [
        TEST,
        ("tests/test_wal.py", "# It shows WAL-1.\n"),
        ("crates/chain/testscripts/replica/wal", "# WAL-1.\n"),
        ("crates/simulator/src/check/wal.rs", "//! WAL-1.\n"),
        (
            "crates/chain/src/guard.rs",
            "//! WAL-0 to WAL-2.\n//! - WAL-0 a.\n//! - WAL-2 b.\n",
        ),
        (
            "crates/gateway/src/f.rs",
            "//! F.\n\nassert!(f, \"WAL-1: no\");\n",
        ),
        (
            "crates/gateway/src/f.rs",
            "//! F.\n\n/// WAL-1.\n#[test]\nfn f() {}\n",
        ),
        (
            "crates/gateway/src/f.rs",
            "//! F.\n\nmod tests {\n    // WAL-1.\n}\n",
        ),
    ] {
        let found = diagnostics(&[WAL, (path, text)]);
        assert!(!found.iter().any(|it| it == missing), "{path}: {found:?}");
    }
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
