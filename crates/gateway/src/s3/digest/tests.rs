//! What is told of a body is compared with it.

use hyper::header::HeaderValue;

use super::*;

fn told(headers: &[(&'static str, &str)]) -> Told {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, HeaderValue::from_str(value).expect("it is a value"));
    }
    Told::read(&map).expect("it can be read")
}

fn finish(told: Told, bytes: &[u8], trailer: &Fields) -> Result<Sums, &'static str> {
    let mut digest = Digest::new(told, Algorithm::Crc64Nvme);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("it runs here").block_on(async {
        for part in bytes.chunks(2) {
            let part = Bytes::copy_from_slice(part);
            digest.update(&part).await.map_err(|it| it.code)?;
        }
        digest.finish(trailer).await.map_err(|it| it.code)
    })
}

#[test]
fn a_body_is_what_is_told_of_it() {
    let none = Fields::new();
    let sums = finish(Told::default(), b"hello", &none).expect("nothing is told");
    assert_eq!(sums.etag, "5d41402abc4b2a76b9719d911017c592");
    assert_eq!(sums.checksum.algorithm, Algorithm::Crc64Nvme);
    assert_eq!(sums.size, 5);
    let md5 = ("content-md5", "XUFAKrxLKna5cZ2REBfFkg==");
    let crc = ("x-amz-checksum-crc32", "NhCmhg==");
    let sums = finish(told(&[md5, crc]), b"hello", &none).expect("it is true");
    assert_eq!(
        sums.checksum,
        checksum::whole(Algorithm::Crc32, &[0x36, 0x10, 0xa6, 0x86])
    );
    for told in [told(&[md5]), told(&[crc])] {
        assert_eq!(finish(told, b"hellO", &none), Err("BadDigest"));
    }
}

/// It shows SDIGEST-1.
#[test]
fn lengths_hashes_and_trailers_are_compared() {
    let none = Fields::new();
    let with_length = |length| Told {
        length: Some(length),
        ..Told::default()
    };
    assert!(finish(with_length(5), b"hello", &none).is_ok());
    assert_eq!(
        finish(with_length(4), b"hello", &none),
        Err("IncompleteBody")
    );
    assert_eq!(
        finish(with_length(6), b"hello", &none),
        Err("IncompleteBody")
    );
    let hashed = |hash: Vec<u8>| Told {
        sha256: Some(hash),
        ..Told::default()
    };
    assert!(finish(hashed(Sha256::digest(b"hello").to_vec()), b"hello", &none).is_ok());
    let wrong = hashed(vec![0; 32]);
    assert_eq!(
        finish(wrong, b"hello", &none),
        Err("XAmzContentSHA256Mismatch")
    );
    let trailing = || told(&[("x-amz-trailer", "x-amz-checksum-crc32")]);
    let field = |value: &str| vec![("x-amz-checksum-crc32".to_owned(), value.to_owned())];
    assert!(finish(trailing(), b"hello", &field("NhCmhg==")).is_ok());
    assert_eq!(
        finish(trailing(), b"hello", &field("AAAAAA==")),
        Err("BadDigest")
    );
    assert_eq!(
        finish(trailing(), b"hello", &field("AAAA")),
        Err("InvalidRequest")
    );
    assert_eq!(finish(trailing(), b"hello", &none), Err("InvalidRequest"));
}
