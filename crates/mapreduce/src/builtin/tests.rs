//! Words, links and the arguments of programs.

use super::indexing::{links, links_of, target};
use super::*;
use crate::user::Batch;

#[test]
fn words_stand_between_six_kinds_of_space() {
    let text = b"  one\ttwo\nthree\x0bfour\x0cfive\rsix\xc2\xa0seven";
    let found: Vec<&[u8]> = words(text).map(|word| &text[word]).collect();
    let expected: [&[u8]; 6] = [
        b"one",
        b"two",
        b"three",
        b"four",
        b"five",
        b"six\xc2\xa0seven",
    ];
    assert_eq!(found, expected);
    assert_eq!(words(b" \n").count(), 0);
}

/// Words of any size at any place, of any bytes.
#[test]
fn words_are_those_that_a_look_at_each_byte_finds() {
    let mut number: u64 = 1;
    let mut next = |below: u64| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (number >> 33) % below
    };
    for _ in 0..2_000 {
        let (size, spaces) = (next(200), 1 + next(40));
        let text: Vec<u8> = (0..size)
            .map(|_| match next(spaces) {
                0 => b" \t\n\x0b\x0c\r"[next(6) as usize],
                _ => next(256) as u8,
            })
            .collect();
        let found: Vec<&[u8]> = words(&text).map(|word| &text[word]).collect();
        let pieces = text.split(|byte| is_space(*byte));
        let expected: Vec<&[u8]> = pieces.filter(|piece| !piece.is_empty()).collect();
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn links_are_the_values_of_href() {
    let html = b"<a href=\"x.html\">h <A HREF = '../y#z'> href=\"no end";
    let found: Vec<&[u8]> = links(html).collect();
    let expected: [&[u8]; 2] = [b"x.html", b"../y#z"];
    assert_eq!(found, expected);
}

#[test]
fn links_are_the_same_in_any_batches() {
    let lines: [&[u8]; 3] = [b"href=\"no end\n", b"href='x' href=\n", b"'y'\n"];
    let whole = lines.concat();
    let batch = |bytes| Batch {
        source: "i.html",
        input: 0,
        offset: 0,
        bytes,
        is_lines: true,
    };
    let together: Vec<&[u8]> = links_of(batch(&whole)).collect();
    let apart: Vec<&[u8]> = lines
        .into_iter()
        .flat_map(|line| links_of(batch(line)))
        .collect();
    assert_eq!(together, apart);
    assert_eq!(apart, [b"x"]);
}

#[test]
fn a_link_leads_from_its_object() {
    let cases: [(&str, &[u8], Option<&str>); 7] = [
        ("a/b/i.html", b"../y#z", Some("a/y")),
        ("a/b/i.html", b"c.html", Some("a/b/c.html")),
        ("a/b/i.html", b"/c.html", Some("c.html")),
        ("a/b/i.html", b"https://x/y#z", Some("https://x/y")),
        ("a/b/i.html", b"#top", None),
        ("i.html", b"../../x", Some("x")),
        ("i.html", b"x?a:b", Some("x?a:b")),
    ];
    for (source, link, expected) in cases {
        let found = target(source, link).map(|bytes| String::from_utf8(bytes).expect("text"));
        assert_eq!(found.as_deref(), expected, "{link:?}");
    }
}

#[test]
fn a_wrong_program_is_named() {
    let open = |name: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let name = name.to_owned();
        BuiltIn.open(&Program { name, arguments })
    };
    for (name, arguments) in [
        ("nothing", &[][..]),
        ("grep", &[]),
        ("grep", &["("]),
        ("top", &["0"]),
    ] {
        assert!(
            matches!(open(name, arguments), Err(Failure::Job(_))),
            "{name}"
        );
    }
    assert!(open("grep", &["a.c"]).is_ok() && open("top", &["3"]).is_ok());
}
