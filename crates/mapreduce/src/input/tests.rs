//! Patterns, cuts and compressed input.

use std::io::Write as _;

use proptest::prelude::*;

use super::*;
use crate::failure::{Failure, Outcome};

#[test]
fn wildcards_match_what_they_say() {
    let cases = [
        ("file:///a/**", "file:///a", "x/y.txt", true),
        ("file:///a/**", "file:///a", ".hidden/.x", true),
        ("file:///a/*.c", "file:///a", "x.c", true),
        ("file:///a/*.c", "file:///a", "b/x.c", false),
        ("file:///a/**/*.c", "file:///a", "x.c", true),
        ("file:///a/**/*.c", "file:///a", "b/c/x.c", true),
        ("file:///a/**/*.c", "file:///a", "b/c/x.h", false),
        ("file:///a/b?/x", "file:///a", "bc/x", true),
        ("file:///a/b?/x", "file:///a", "b//x", false),
        ("file:///a/b", "file:///a", "b", true),
        ("file:///a/b", "file:///a", "b/c", true),
        ("file:///a/b", "file:///a", "bc", false),
        ("file:///*.c", "file:///", "x.c", true),
        (
            "s3://bucket/p/**?endpoint=http://h",
            "s3://bucket/p?endpoint=http://h",
            "q",
            true,
        ),
        ("s3://bucket/p/x?.txt", "s3://bucket/p", "xy.txt", true),
        ("s3://bucket", "s3://bucket", "any/thing", true),
        ("s3://bucket/a", "s3://bucket", "a/x", true),
    ];
    for (url, base, key, is_match) in cases {
        let pattern = Pattern::parse(url).expect(url);
        assert_eq!(pattern.base, base, "{url}");
        assert_eq!(pattern.matches(key), is_match, "{url} {key}");
    }
    assert!(Pattern::parse("a/b").is_err());
    assert!(Pattern::parse("s3://").is_err());
}

fn pieces_of(text: &[u8], cuts: &[usize], chunk: usize) -> Outcome<Vec<(u64, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut bounds: Vec<usize> = cuts.iter().map(|at| at % (text.len() + 1)).collect();
    bounds.extend([0, text.len()]);
    bounds.sort_unstable();
    bounds.dedup();
    for pair in bounds.windows(2) {
        let mut cutter = Cutter::new(
            &Format::Lines,
            pair[0] as u64,
            pair[1] as u64,
            RECORD_BYTES_MAX,
        );
        let start = Cutter::first_byte(pair[0] as u64) as usize;
        let mut take = |at: u64, bytes: &[u8]| {
            let mut place = at;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                found.push((place, line.to_vec()));
                place += line.len() as u64;
            }
            Ok(())
        };
        for bytes in text[start..].chunks(chunk) {
            cutter.feed(bytes, &mut take)?;
        }
        if !cutter.is_done() {
            cutter.finish(&mut take)?;
        }
    }
    Ok(found)
}

proptest! {
    /// It shows CUT-1.
    #[test]
    fn each_line_is_in_one_piece(
        text in "[ab\n]{0,60}",
        cuts in prop::collection::vec(0usize..70, 0..6),
        chunk in 1usize..20,
    ) {
        let found = pieces_of(text.as_bytes(), &cuts, chunk).expect("short lines");
        let mut place = 0;
        let mut expected = Vec::new();
        for line in text.as_bytes().split_inclusive(|byte| *byte == b'\n') {
            expected.push((place, line.to_vec()));
            place += line.len() as u64;
        }
        prop_assert_eq!(found, expected);
    }

    /// It shows INFLATE-1.
    #[test]
    fn compressed_input_comes_back_or_fails(
        text in prop::collection::vec(any::<u8>(), 0..5000),
        chunk in 1usize..600,
        lost in 0usize..40,
    ) {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).expect("memory");
        let gzip = gzip.finish().expect("memory");
        let zstd = zstd::bulk::compress(&text, 1).expect("memory");
        for (compression, bytes) in [(Compression::Gzip, gzip), (Compression::Zstd, zstd)] {
            let lost = lost.min(bytes.len() - 1);
            let bytes = &bytes[..bytes.len() - lost];
            let found = inflated(compression, bytes, chunk);
            match lost {
                0 => prop_assert_eq!(found.expect("whole"), text.clone()),
                _ => prop_assert!(found.is_err(), "{lost} bytes are missing"),
            }
        }
    }
}

fn inflated(compression: Compression, bytes: &[u8], chunk: usize) -> Outcome<Vec<u8>> {
    let mut inflater = Inflater::new(compression, 64 << 20)?;
    let mut out = Vec::new();
    for bytes in bytes.chunks(chunk) {
        inflater.feed(bytes, |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })?;
    }
    inflater.finish(|bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(out)
}

/// A byte of gzip may stand for a thousand.
#[test]
fn what_a_few_bytes_stand_for_comes_in_pieces() {
    let text = vec![0; 32 << 20];
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&text).expect("memory");
    let bytes = encoder.finish().expect("memory");
    let mut inflater = Inflater::new(Compression::Gzip, 64 << 20).expect("a decoder");
    let (mut longest, mut all) = (0, 0);
    let mut take = |bytes: &[u8]| {
        longest = longest.max(bytes.len());
        all += bytes.len();
        Ok(())
    };
    inflater.feed(&bytes, &mut take).expect("whole");
    inflater.finish(&mut take).expect("whole");
    assert_eq!(all, text.len());
    assert!(longest <= 1 << 20, "{longest}");
}

#[test]
fn a_window_above_memory_is_refused() {
    use zstd::stream::raw::CParameter;
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("memory");
    let window = encoder.set_parameter(CParameter::WindowLog(24));
    window.expect("a window of 16 MiB");
    encoder.write_all(&[7; 100_000]).expect("memory");
    let bytes = encoder.finish().expect("memory");
    let opened = |memory| {
        let mut inflater = Inflater::new(Compression::Zstd, memory)?;
        inflater.feed(&bytes, |_| Ok(()))
    };
    opened(64 << 20).expect("room for the window");
    let refused = opened(8 << 20).expect_err("a window that is larger than memory");
    assert!(matches!(refused, Failure::Task(_)), "{refused}");
}

#[test]
fn a_csv_record_may_have_line_breaks() {
    let text = b"name,text\na,\"one\ntwo\"\nb,plain\n";
    for chunk in 1..text.len() {
        let mut cutter = Cutter::new(
            &Format::Csv(Vec::new()),
            0,
            text.len() as u64,
            RECORD_BYTES_MAX,
        );
        let mut fields = Fields::new(&Format::Csv(vec!["text".to_owned(), "name".to_owned()]), 0);
        let mut out = Vec::new();
        let mut take = |at: u64, bytes: &[u8]| {
            out.extend(fields.lines(at, bytes)?);
            Ok(())
        };
        for bytes in text.chunks(chunk) {
            cutter.feed(bytes, &mut take).expect("valid");
        }
        cutter.finish(&mut take).expect("valid");
        assert_eq!(out, b"one two\ta\nplain\tb\n", "in chunks of {chunk}");
    }
}

#[test]
fn a_bad_json_line_fails_or_is_counted() {
    let format = Format::Json(vec!["a".to_owned(), "b".to_owned()]);
    let text = b"{\"a\":1,\"b\":\"x\\ty\"}\nno\n{\"b\":true}\n";
    let mut strict = Fields::new(&format, 0);
    let failed = strict.lines(100, text).expect_err("one is bad").to_string();
    assert!(failed.contains("the record at byte 119"), "{failed}");
    let mut lenient = Fields::new(&format, 5);
    let lines = lenient.lines(100, text).expect("one may be bad");
    assert_eq!(lines, b"1\tx y\n\ttrue\n");
    assert_eq!(lenient.skipped, 1);
}
