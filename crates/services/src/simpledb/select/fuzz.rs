//! For any text of a Select, and anything that comes back as a token: an answer or a refusal.

use bytes::Bytes;
use fader_fuzz::{Corpus, run};

use super::position::Position;
use super::statement::Statement;
use crate::catalog::AccountId;
use crate::simpledb::token::{Kind, open, seal};
use crate::simpledb::{Limits, PageToken};

const WORDS: &[&[u8]] = &[
    b"select ",
    b" from ",
    b" where ",
    b" and ",
    b" or ",
    b" not ",
    b"(",
    b")",
    b"'",
    b"\"",
    b"`",
    b" between ",
    b" in (",
    b" like '",
    b"%",
    b" intersection ",
    b" every(",
    b" is null",
    b" order by ",
    b" limit ",
    b"itemName()",
    b"count(*)",
    b",",
    b"=",
    b"<=",
    b"\xC3\xA9",
    b"''",
];

#[test]
fn fuzz_select() {
    let limits = Limits::default();
    let seeds: Vec<&[u8]> = include_str!("fuzz.txt")
        .lines()
        .map(str::as_bytes)
        .collect();
    let corpus = Corpus {
        seeds: &seeds,
        words: WORDS,
    };
    run("select", &corpus, |input| {
        let text = String::from_utf8_lossy(input);
        let _ = super::domain(&text);
        if let Ok(statement) = Statement::parse(&text, &limits) {
            // What was understood is understood again as it is shown.
            let shown = format!("select * {}", statement.selection);
            assert!(
                Statement::parse(&shown, &limits).is_ok(),
                "{text:?}: {shown:?}"
            );
        }
    });
}

#[test]
fn fuzz_tokens() {
    let account = AccountId("000000000001".to_owned());
    let token = seal(
        Kind::Select,
        &account,
        b"from cats",
        b"\x01\x00\x03abc\x05item1",
    );
    let corpus = Corpus {
        seeds: &[&token.0, b"\x00\x03abc\x05item1", b"AAAA"],
        words: &[b"\x01\x02", b"\xFF\xFF\xFF\xFF\x0F"],
    };
    run("tokens", &corpus, |input| {
        let given = PageToken(Bytes::copy_from_slice(input));
        let opened = open(&given, Kind::Select, &account, b"from cats");
        assert!(opened.is_err() || given.0.starts_with(&token.0[..2]));
        // As if the checks of a token had passed.
        let _ = Position::decode(Bytes::copy_from_slice(input));
        let _ = fader_chain::Session::decode(Bytes::copy_from_slice(input));
    });
}
