//! Chunks: AWS's published examples, and texts that differ from them.

use proptest::prelude::*;

use super::*;
use crate::signature::chunk_key;

/// The examples of "Signature calculations: transferring a payload in multiple chunks", of AWS's
/// documentation: 66,560 times "a" in chunks of 64 KiB.
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const SCOPE: &str = "20130524/us-east-1/s3/aws4_request";
const DATE: &str = "20130524T000000Z";
const SEED: &str = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
const FIRST: &str = "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648";
const SECOND: &str = "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497";
const LAST: &str = "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9";

fn body() -> Vec<u8> {
    let a = |count| "a".repeat(count);
    format!(
        "10000;chunk-signature={FIRST}\r\n{}\r\n400;chunk-signature={SECOND}\r\n{}\r\n\
         0;chunk-signature={LAST}\r\n\r\n",
        a(65_536),
        a(1024)
    )
    .into_bytes()
}

fn key(seed: &str) -> ChunkKey {
    chunk_key(SECRET, SCOPE, DATE, seed)
}

/// The bytes and the trailer of a body that comes in pieces of so many bytes.
fn read(mut chunks: Chunks, body: &[u8], piece: usize) -> Result<(Vec<u8>, Fields), &'static str> {
    let mut out = Vec::new();
    for piece in body.chunks(piece) {
        let mut input = Bytes::copy_from_slice(piece);
        while let Some(bytes) = chunks.next(&mut input).map_err(|it| it.code)? {
            out.extend_from_slice(&bytes);
        }
    }
    Ok((out, chunks.finish().map_err(|it| it.code)?))
}

#[test]
fn the_published_example_is_verified() {
    for piece in [1, 7, 4096, 1 << 20] {
        let read = read(Chunks::new(Some(key(SEED)), false), &body(), piece);
        assert_eq!(read, Ok((vec![b'a'; 66_560], Vec::new())), "{piece}");
    }
}

#[test]
fn the_published_example_with_a_trailer_is_verified() {
    let seed = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
    let text = String::from_utf8(body()).expect("it is text");
    let text = text
        .replace(
            FIRST,
            "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        )
        .replace(
            SECOND,
            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        )
        .replace(
            LAST,
            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
        );
    let trailer = "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:\
                   d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n";
    let text = format!(
        "{}{trailer}",
        text.strip_suffix("\r\n").expect("it ends so")
    );
    let whole = |text: &str| read(Chunks::new(Some(key(seed)), true), text.as_bytes(), 1000);
    let field = ("x-amz-checksum-crc32c".to_owned(), "sOO8/Q==".to_owned());
    assert_eq!(whole(&text), Ok((vec![b'a'; 66_560], vec![field])));
    assert_eq!(
        whole(&text.replace("sOO8", "sOO9")),
        Err("SignatureDoesNotMatch")
    );
    let unsigned = text.split("x-amz-trailer").next().expect("it has one");
    assert_eq!(
        whole(&format!("{unsigned}\r\n")),
        Err("SignatureDoesNotMatch")
    );
}

/// It shows CHUNK-2.
#[test]
fn each_difference_is_refused() {
    let text = String::from_utf8(body()).expect("it is text");
    let signed = |text: &str| read(Chunks::new(Some(key(SEED)), false), text.as_bytes(), 997);
    for (from, to) in [
        ("aaa\r\n400", "aab\r\n400"),
        ("aaa\r\n0;", "aab\r\n0;"),
        (FIRST, SECOND),
        (LAST, FIRST),
        (";chunk-signature=", ";chunk="),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_eq!(signed(&changed), Err("SignatureDoesNotMatch"), "{from}");
    }
    // Chunks that are left out or come again.
    let (first, rest) = text.split_once("400;").expect("it has two");
    assert_eq!(signed(&format!("400;{rest}")), Err("SignatureDoesNotMatch"));
    assert_eq!(
        signed(&format!("{first}{first}400;{rest}")),
        Err("SignatureDoesNotMatch")
    );
    let other_seed = read(Chunks::new(Some(key(FIRST)), false), text.as_bytes(), 997);
    assert_eq!(other_seed, Err("SignatureDoesNotMatch"));
    assert_eq!(signed(&text[..text.len() - 2]), Err("IncompleteBody"));
    assert_eq!(
        signed(&text[..70_000.min(text.len() - 200)]),
        Err("IncompleteBody")
    );
    assert_eq!(signed(&format!("{text}x")), Err("InvalidRequest"));
}

#[test]
fn unsigned_chunks_have_sizes_and_trailers() {
    let unsigned =
        |text: &str, has_trailer| read(Chunks::new(None, has_trailer), text.as_bytes(), 3);
    let field = ("x-amz-checksum-crc32".to_owned(), "AAAAAA==".to_owned());
    assert_eq!(
        unsigned(
            "3\r\nabc\r\n0\r\nX-Amz-Checksum-Crc32: AAAAAA==\r\n\r\n",
            true
        ),
        Ok((b"abc".to_vec(), vec![field]))
    );
    assert_eq!(unsigned("0\r\n\r\n", true), Ok((Vec::new(), Vec::new())));
    for text in [
        "3\r\nabcd\r\n0\r\n\r\n",
        "g\r\nabc\r\n0\r\n\r\n",
        "-1\r\n",
        "+3\r\nabc",
        "11111111111111111\r\n",
        "\r\n",
        "0\r\nno colon\r\n\r\n",
    ] {
        assert_eq!(unsigned(text, true), Err("InvalidRequest"), "{text:?}");
    }
    assert_eq!(unsigned("0\r\nx-a:1\r\n\r\n", false), Err("InvalidRequest"));
    let long = format!("3;{}", "x".repeat(LINE_BYTES_MAX));
    assert_eq!(unsigned(&long, true), Err("InvalidRequest"));
    let many = format!("0\r\n{}\r\n", "a:b\r\n".repeat(FIELDS_MAX + 1));
    assert_eq!(unsigned(&many, true), Err("InvalidRequest"));
}

proptest! {
    #[test]
    fn chunks_of_any_sizes_are_joined(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        piece in 1_usize..50,
    ) {
        let mut body = Vec::new();
        for part in &parts {
            body.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            body.extend_from_slice(part);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let read = read(Chunks::new(None, false), &body, piece);
        prop_assert_eq!(read, Ok((parts.concat(), Vec::new())));
    }
}
