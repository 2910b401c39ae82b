//! Each rule on a file that breaks it and on one that does not.

use super::{File, check};

mod ids;
mod prose;

fn diagnostics(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<File> = files
        .iter()
        .map(|(path, text)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        })
        .collect();
    check(&files).iter().map(ToString::to_string).collect()
}

const ROOT: &str = "Cargo.toml";
const CHAIN: &str = "crates/chain/Cargo.toml";
const LINTS: &str = "[lints]\nworkspace = true\n";

#[test]
fn a_source_file_opens_with_what_it_is() {
    assert!(diagnostics(&[("crates/chain/src/lib.rs", "//! A replica.\n")]).is_empty());
    assert_eq!(
        diagnostics(&[("crates/chain/src/lib.rs", "use std;\n")]),
        ["crates/chain/src/lib.rs:1: opens without `//!` saying what the file is"]
    );
}

#[test]
fn lengths_are_bounded_but_tests_may_be_long() {
    let long = format!("//! Long.\n{}", "\n".repeat(600));
    assert_eq!(
        diagnostics(&[("crates/gateway/src/log.rs", &long)]),
        ["crates/gateway/src/log.rs:601: 601 lines; at most 600"]
    );
    assert!(diagnostics(&[("crates/gateway/src/log/tests.rs", &long)]).is_empty());
    assert!(diagnostics(&[("crates/gateway/tests/log.rs", &long)]).is_empty());
    let wide = format!("//! {}\n", "é".repeat(97));
    assert_eq!(
        diagnostics(&[("crates/gateway/src/log.rs", &wide)]),
        ["crates/gateway/src/log.rs:1: 101 characters in a line; at most 100"]
    );
}

#[test]
fn systems_take_time_tasks_and_randomness_from_their_runtime() {
    let text = "//! No tokio.\n\
                use std::time::{Duration, Instant};\n\
                tokio::spawn(run);\n\
                let random = runtime.random();\n";
    for path in [
        "crates/mapreduce/src/lib.rs",
        "crates/cloud/src/bucket/mod.rs",
    ] {
        assert_eq!(
            diagnostics(&[(path, text)]),
            [
                format!("{path}:2: a system may not name `Instant`: it has its `Runtime`"),
                format!("{path}:3: a system may not name `tokio`: it has its `Runtime`"),
            ]
        );
    }
    assert!(diagnostics(&[("crates/cloud/src/bucket/tests.rs", text)]).is_empty());
    assert!(diagnostics(&[("crates/cloud/src/lib.rs", text)]).is_empty());
}

#[test]
fn cores_do_not_say_what_only_shells_may() {
    let text = "//! No tokio, no Instant.\n\
                use std::time::Instant;\n\
                // HashMap is banned.\n\
                let text = \"HashMap\"; let brand = operand;\n\
                let c = '\"'; rand::random();\n";
    assert_eq!(
        diagnostics(&[("crates/services/src/lib.rs", text)]),
        [
            "crates/services/src/lib.rs:2: a core may not name `Instant`",
            "crates/services/src/lib.rs:5: a core may not name `rand`",
        ]
    );
    assert!(diagnostics(&[("crates/services/src/tests.rs", text)]).is_empty());
    assert!(diagnostics(&[("crates/node/src/lib.rs", text)]).is_empty());
}

#[test]
fn code_that_carries_services_names_none() {
    let text = "//! Carries SimpleDB.\nuse fader_services::sqs;\nlet S31 = is_s3;\n";
    assert_eq!(
        diagnostics(&[("crates/node/src/lib.rs", text)]),
        [
            "crates/node/src/lib.rs:1: `SimpleDB` is named where any service is carried",
            "crates/node/src/lib.rs:2: `sqs` is named where any service is carried",
        ]
    );
    assert!(diagnostics(&[("crates/gateway/src/lib.rs", text)]).is_empty());
}

#[test]
fn leftovers_are_found() {
    let text = concat!(
        "//! Text.\n",
        "fn f() { to",
        "do!() }\n",
        "// to",
        "do! is banned\n"
    );
    let expected = concat!("xtask/src/f.rs:2: `to", "do!` is left over");
    assert_eq!(diagnostics(&[("xtask/src/f.rs", text)]), [expected]);
}

#[test]
fn names_say_something() {
    assert_eq!(
        diagnostics(&[("crates/gateway/src/utils.rs", "//! Text.\n")]),
        ["crates/gateway/src/utils.rs:1: `utils` says nothing as a name"]
    );
}

#[test]
fn help_has_no_default_by_hand() {
    let source = |help: &str| {
        let text = format!("//! F.\n\n{help}\n");
        diagnostics(&[("crates/gateway/src/flags.rs", &text)])
    };
    let by_hand = source("/// Where it listens. [default: 127.0.0.1:1]");
    assert_eq!(by_hand.len(), 1, "{by_hand:?}");
    assert!(by_hand[0].contains("flags.rs:3: a default by hand"));
    for fine in [
        "/// Where it listens.",
        "#[arg(help = format!(\"Where. [default: {LISTEN}]\"))]",
        "/// The section `default`.",
    ] {
        assert_eq!(source(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn parameters_are_no_tuple_patterns() {
    let text = "//! Text.\n\
                fn f<T: Fn(u8, (u8, u8)) -> u8, U>(\n\
                    of: T,\n\
                    (one, other): (u8, Vec<(u8, u8)>),\n\
                ) {}\n\
                fn g(&(one, other): &(u8, u8)) {}\n";
    let found = "a tuple pattern in a parameter: take its elements one by one, or a struct";
    assert_eq!(
        diagnostics(&[("crates/gateway/src/f.rs", text)]),
        [4, 6].map(|line| format!("crates/gateway/src/f.rs:{line}: {found}"))
    );
    assert!(diagnostics(&[("crates/gateway/src/f/tests.rs", text)]).is_empty());
    let text = "//! Text.\n\
                fn f(of: Map<u8, (u8, u8)>, by: impl Fn(u8, (u8, u8)) -> u8, Id(id): Id) -> u8 {\n\
                    // fn g((one, other): (u8, u8))\n\
                    by(1, (2, 3)) + of.iter().map(|(one, (two, three))| one).sum()\n\
                }\n\
                fn h(range: (u8, u8), call: fn(u8, (u8, u8))) {}\n";
    assert!(diagnostics(&[("crates/gateway/src/f.rs", text)]).is_empty());
}

#[test]
fn folders_of_one_machine_are_found() {
    let path = format!("see {}/x/y and a/work/b\n", "/home");
    assert_eq!(
        diagnostics(&[("README.md", &path)]),
        [concat!(
            "README.md:1: `/home",
            "/…` is a folder of one machine"
        )]
    );
}

#[test]
fn dependencies_point_up_the_house() {
    let services = "[dependencies]\nfader-node.workspace = true\n".to_owned() + LINTS;
    assert_eq!(
        diagnostics(&[
            ("crates/services/Cargo.toml", &services),
            ("crates/services/src/lib.rs", "//! Uses fader_node.\n"),
        ]),
        ["crates/services/Cargo.toml:2: `fader-node` does not stand above this crate"]
    );
    let node = "[dependencies]\nfader-services.workspace = true\n".to_owned() + LINTS;
    assert!(
        diagnostics(&[
            ("crates/node/Cargo.toml", &node),
            ("crates/node/src/lib.rs", "//! Uses fader_services.\n"),
        ])
        .is_empty()
    );
    assert_eq!(
        diagnostics(&[("crates/attic/Cargo.toml", LINTS)]),
        ["crates/attic/Cargo.toml:1: crate `attic` is not in the list of floors"]
    );
}

#[test]
fn dependencies_are_inherited_used_and_reasoned() {
    let chain = "[dependencies]\nbytes = \"1\"\n[package]\nname = \"x\"\n";
    assert_eq!(
        diagnostics(&[(CHAIN, chain)]),
        [
            "crates/chain/Cargo.toml:1: does not inherit the workspace's lints",
            "crates/chain/Cargo.toml:2: `bytes` does not come from [workspace.dependencies]",
            "crates/chain/Cargo.toml:2: `bytes` is not used",
        ]
    );
    let root = "[workspace.dependencies]\n\
                # sha1, sha2: signatures.\nsha1 = \"1\"\nsha2 = \"2\"\nhmac = \"3\"\n";
    let chain = "[dev-dependencies]\nsha1.workspace = true\nsha2.workspace = true\n".to_owned()
        + "hmac = { workspace = true }\n"
        + LINTS;
    let source = ("crates/chain/src/lib.rs", "//! Uses sha1, sha2, hmac.\n");
    assert_eq!(
        diagnostics(&[(ROOT, root), (CHAIN, &chain), source]),
        ["Cargo.toml:5: `hmac` has no comment `# hmac: reason` above it"]
    );
    let root = "[workspace.dependencies]\n# sha9: none.\nsha9 = \"1\"\n";
    assert_eq!(
        diagnostics(&[(ROOT, root)]),
        ["Cargo.toml:3: no crate depends on `sha9`"]
    );
}

#[test]
fn promises_name_tests_that_exist() {
    let table = "| action | kept | test |\n|---|---|---|\n\
                 | Put | yes | `test_puts`, `tests::gets` |\n\
                 | Get | yes | `test_flies` |\n| Select | no | |\n\nno | table |\n";
    let tests = ("tests/test_a.py", "def test_puts(client):\n");
    let more = ("crates/node/src/tests.rs", "//! T.\nfn gets() {}\n");
    assert_eq!(
        diagnostics(&[
            ("docs/reference/compatibility/simpledb.md", table),
            tests,
            more
        ]),
        [
            "docs/reference/compatibility/simpledb.md:4: there is no test `test_flies`",
            "docs/reference/compatibility/simpledb.md:5: the row names no test",
        ]
    );
}

#[test]
fn a_layer_uses_only_those_below_it() {
    let sources = |member: &str| {
        diagnostics(&[
            ("crates/node/src/lib.rs", "//! N.\nmod member;\n"),
            (
                "crates/node/src/node.rs",
                "//! N.\nuse crate::member::Member;\n",
            ),
            ("crates/node/src/member/mod.rs", member),
            ("crates/node/src/clock.rs", "//! C.\n"),
        ])
    };
    assert!(sources("//! Unlike `crate::node`.\nuse crate::clock;\n").is_empty());
    for text in [
        "//! M.\nuse crate::{clock, node::Node};\n",
        "//! M.\nuse super::node::Node;\n",
        "//! M.\nfn of(node: &crate::node::Node) {}\n",
    ] {
        assert_eq!(
            sources(text),
            ["crates/node/src/member/mod.rs:2: `member` may not use `node` above it"]
        );
    }
    assert_eq!(
        diagnostics(&[("crates/node/src/words.rs", "//! W.\n")]),
        ["crates/node/src/words.rs:1: `words` is not in the list of layers"]
    );
}

#[test]
fn modules_of_a_folder_are_no_circle() {
    let sources = |pending: &str| {
        diagnostics(&[
            ("crates/node/src/member/mod.rs", "//! M.\nuse desk::Desk;\n"),
            (
                "crates/node/src/member/desk.rs",
                "//! D.\nuse super::{Member, pending::Work};\n",
            ),
            ("crates/node/src/member/pending/mod.rs", "//! P.\n"),
            ("crates/node/src/member/pending/stage.rs", pending),
            (
                "crates/node/src/member/read.rs",
                "//! R.\nuse super::desk::Desk;\n",
            ),
        ])
    };
    // What it is part of, and what it is beside.
    let inside = "//! S.\nuse super::Work;\nuse crate::member::Member;\n";
    assert!(sources(inside).is_empty());
    let test = "//! S.\n\n#[cfg(test)]\nmod tests {\n    use crate::member::read::Scope;\n}\n";
    assert!(sources(test).is_empty());
    assert_eq!(
        sources("//! S.\n\nuse crate::member::read::Scope;\n"),
        ["crates/node/src/member/desk.rs:2: a circle in `member`: desk -> pending -> read -> desk"]
    );
}
