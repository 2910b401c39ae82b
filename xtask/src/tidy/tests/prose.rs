//! Rules about prose and links: each on a text that breaks it and on one that does not.

use super::diagnostics;

const LISTS: &str = "quotes = [\"the quoted words\"]\ngenerated = [\"docs/made.md\"]\n\
                     [banned]\nwherefore = \"name the actor\"\n\"for good\" = \"write it\"\n";

fn of(page: &str) -> Vec<String> {
    diagnostics(&[
        ("xtask/prose.toml", LISTS),
        ("docs/made.md", ""),
        ("docs/a.md", page),
    ])
}

fn words(count: usize) -> String {
    "Word".to_owned() + &" word".repeat(count - 1)
}

#[test]
fn sentences_are_bounded() {
    let fits = words(24);
    assert!(of(&format!("{fits} end. {fits} end.\n")).is_empty());
    // A list item, a blank line and a heading begin a new sentence; code is one word.
    assert!(
        of(&format!(
            "# {fits}\n{fits}:\n- {fits}\n- {fits}\n\n{fits}\n"
        ))
        .is_empty()
    );
    assert!(of(&format!("{fits} `a b c d`\n")).is_empty());
    assert!(of(&format!("```\n{fits} {fits}\n```\n")).is_empty());
    for long in [
        format!("{fits}\none two\n"),
        format!("{fits}; one two\n"),
        format!("{fits}: one two\n"),
        format!("{fits} e.g. one\n"),
        format!("- {fits}\n  one two\n"),
        format!("{fits} [one two](a.md)\n"),
    ] {
        let found = of(&long);
        assert_eq!(found.len(), 1, "{long}: {found:?}");
        assert!(found[0].contains("26 words"), "{found:?}");
    }
}

#[test]
fn a_sentence_is_told_with_its_line() {
    let page = format!("Short.\n\nShort. One\n{} end.\n", words(25));
    let text = "docs/a.md:3: a sentence of 27 words (\"One Word word word word …\"); at most 25";
    assert_eq!(of(&page), [text]);
}

#[test]
fn cells_are_bounded() {
    let table = |cell: &str| format!("| a | b |\n|---|---|\n| x \\| `|` | {cell} |\n");
    assert!(of(&table(&words(30))).is_empty());
    let text = "docs/a.md:3: a cell of 31 words (\"Word word word word word …\"); at most 30";
    assert_eq!(of(&table(&words(31))), [text]);
}

#[test]
fn banned_words_and_phrases_are_found() {
    assert!(of("Forever whereforeish, for goodness.\n`wherefore`\n").is_empty());
    assert_eq!(
        of("Wherefore,\nleaves for\ngood.\n"),
        [
            "docs/a.md:1: `for good`: write it",
            "docs/a.md:1: `wherefore`: name the actor",
        ]
    );
}

#[test]
fn quotes_and_generated_pages_may_break_the_rules() {
    assert!(of("Wherefore says the quoted words.\n").is_empty());
    let made = [
        ("xtask/prose.toml", LISTS),
        ("docs/made.md", "Wherefore.\n"),
    ];
    assert!(diagnostics(&made).is_empty());
    let many = "quotes = [\"".to_owned() + &vec!["a"; 21].join("\", \"") + "\"]\n";
    assert_eq!(
        diagnostics(&[("xtask/prose.toml", &many)]),
        ["xtask/prose.toml:1: 21 quotes; at most 20"]
    );
}

#[test]
fn broken_markdown_is_found() {
    assert!(of("```\nopen\n```\n\n| a |\n|---|\n| b |\n").is_empty());
    assert_eq!(
        of("one\n\n```sh\nopen\n"),
        ["docs/a.md:3: the fence is not closed"]
    );
    assert_eq!(
        of("| a | b |\n|---|---|\n| c |\n"),
        ["docs/a.md:3: the row has another number of cells than the table's head"]
    );
    for table in ["| a |\n| b |\n", "| a |\n"] {
        let text = "docs/a.md:1: the table has no line of dashes below its head";
        assert_eq!(of(table), [text], "{table}");
    }
    assert_eq!(of("one\r\n"), ["docs/a.md:1: has a CR"]);
    assert_eq!(of("one\n\u{FFFD}\n"), ["docs/a.md:2: is not UTF-8"]);
}

#[test]
fn bytes_that_are_no_text_are_seen() {
    let read = crate::tidy::text_of;
    assert_eq!(read("a.bin", vec![0xff]), None);
    assert_eq!(read("a.md", vec![b'a', 0xff]).as_deref(), Some("a\u{FFFD}"));
    assert_eq!(read("a.md", b"a".to_vec()).as_deref(), Some("a"));
}

#[test]
fn links_lead_somewhere() {
    let text = "[a](../README.md#one-two) [b](format/log.md) [c](https://example.com/)\n\
                [d](format)\n[e](#here) [f](../README.md#none) `[g](none.md)`\n\n## Here\n";
    assert_eq!(
        diagnostics(&[
            ("docs/index.md", text),
            ("README.md", "# One *two*!\n"),
            ("docs/format/a.md", "")
        ]),
        [
            "docs/index.md:1: links to `format/log.md`, which is not there",
            "docs/index.md:3: links to `../README.md#none`, which has no such heading",
        ]
    );
}

#[test]
fn headings_that_are_alike_have_anchors_of_their_own() {
    let text = "[a](#a), [b](#a-1), [c](#a-2)\n\n# A\n## A\n";
    assert_eq!(
        diagnostics(&[("docs/b.md", text)]),
        ["docs/b.md:1: links to `#a-2`, which has no such heading"]
    );
}

#[test]
fn every_page_is_in_the_index() {
    let index = ("docs/README.md", "[a](a.md), [b](../README.md#x)\n");
    let (page, start) = (("docs/a.md", ""), ("README.md", "# x\n"));
    assert!(diagnostics(&[index, page, start]).is_empty());
    assert_eq!(
        diagnostics(&[index, page, start, ("docs/format/b.md", "")]),
        ["docs/format/b.md:1: is not in docs/README.md"]
    );
}

#[test]
fn pages_that_code_names_are_there() {
    let source = |text: &str| {
        let code = format!("//! {text}\n");
        let page = ("docs/format/log.md", "");
        diagnostics(&[page, ("crates/gateway/src/f.rs", &code)])
    };
    for good in [
        "See docs/format/log.md, section 3.",
        "See `docs/format`.",
        "See log.md.",
        "Log.md, at the beginning of a sentence; ../../docs/format/log.md.",
    ] {
        assert!(source(good).is_empty(), "{good}");
    }
    for (bad, path) in [
        ("See docs/log.md.", "docs/log.md"),
        ("See docs/protocol.", "docs/protocol"),
        ("See operating.md.", "operating.md"),
    ] {
        let text =
            format!("crates/gateway/src/f.rs:1: names the page `{path}`, which is not there");
        assert_eq!(source(bad), [text]);
    }
}

#[test]
fn comments_obey_the_same_rules() {
    let of = |path: &str, code: &str| {
        diagnostics(&[
            ("xtask/prose.toml", LISTS),
            ("docs/made.md", ""),
            (path, code),
        ])
    };
    let (fits, long) = (words(25), words(26));
    // Each mark begins a text of its own; code, drawings and tables are none.
    let good = format!(
        "//! {fits}\n//!\n//! - {fits}\n\n/// {fits}\n// {fits}\n//     {long} wherefore\n\
         // {fits} ──▶ {fits}\nlet wherefore = \"{long}\"; // wherefore\n"
    );
    assert!(
        of("crates/gateway/src/f.rs", &good)
            .iter()
            .all(|found| found.contains("characters"))
    );
    let bad = "//! A file.\n\n/// Short. Wherefore\n/// asks.\nfn f() {}\n";
    assert_eq!(
        of("crates/gateway/src/f.rs", bad),
        ["crates/gateway/src/f.rs:3: `wherefore`: name the actor"]
    );
    let bad = "//! A file.\n//! Goes\n//! for good.\n";
    assert_eq!(
        of("crates/gateway/src/f.rs", bad),
        ["crates/gateway/src/f.rs:2: `for good`: write it"]
    );
    let code = "\"\"\"Short.\n\n    wherefore\n\"\"\"\n# Fine.\ntext = \"\"\"\nwherefore\n\"\"\"\n";
    assert!(of("tests/a.py", code).is_empty());
    let code = "text = \"\"\"\n\"\"\"\n\n\
                def f():\n    \"\"\"One.\n\n    Wherefore.\"\"\"\n    # Wherefore.\n";
    assert_eq!(
        of("tests/a.py", code),
        [
            "tests/a.py:7: `wherefore`: name the actor",
            "tests/a.py:8: `wherefore`: name the actor",
        ]
    );
}

#[test]
fn names_of_functions_obey_the_lists() {
    let lists = "questions = [\"who\", \"why\"]\n[banned]\nnobody = \"name the actor\"\n";
    let of = |path: &str, line: &str| {
        let text = format!("//! F.\n\n{line}\n");
        diagnostics(&[("xtask/prose.toml", lists), (path, &text)])
    };
    let path = "crates/gateway/src/f.rs";
    for (line, about) in [
        (
            "    pub(crate) async fn who_waits(&self) {}",
            "`who_waits` is a question",
        ),
        ("fn why() {}", "`why` is a question"),
        ("const fn why_so<T>(it: T) {}", "`why_so` is a question"),
        (
            "fn is_nobody() {}",
            "`is_nobody` has `nobody`: name the actor",
        ),
    ] {
        let found = of(path, line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(
            found[0].starts_with(&format!("{path}:3: {about}")),
            "{found:?}"
        );
    }
    for line in [
        "fn whole(whose: u8) {}",
        "fn wait_reports() {}",
        "    let why = read(why_so);",
        "type Why = fn (u8) -> u8;",
    ] {
        assert_eq!(of(path, line), Vec::<String>::new(), "{line}");
    }
    // A test is named after the behaviour.
    assert!(of("crates/gateway/src/tests.rs", "fn who_waits_is_told() {}").is_empty());
    assert_eq!(
        of("crates/gateway/src/tests.rs", "fn nobody_waits() {}").len(),
        1
    );
}
