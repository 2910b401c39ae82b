//! Tests of percent encoding.

use proptest::prelude::*;

use super::*;

#[test]
fn decodes() {
    for (raw, expected) in [
        ("", Ok("")),
        ("plain", Ok("plain")),
        ("a+b%20c", Ok("a b c")),
        ("%2B%2b", Ok("++")),
        ("%C3%A9%e2%82%ac", Ok("é€")),
        ("%00", Ok("\0")),
        ("%", Err(Malformed::Percent)),
        ("a%4", Err(Malformed::Percent)),
        ("%G0", Err(Malformed::Percent)),
        ("%+1", Err(Malformed::Percent)),
        ("%%41", Err(Malformed::Percent)),
        ("%FF", Err(Malformed::Utf8)),
        ("%C3", Err(Malformed::Utf8)),
        ("%ED%A0%80", Err(Malformed::Utf8)),
    ] {
        assert_eq!(decode(raw).as_deref(), expected.as_ref().copied(), "{raw}");
    }
}

#[test]
fn encodes_all_but_unreserved() {
    let mut out = Vec::new();
    encode("azAZ09-._~ +/=&%*\u{e9}\0", &mut out);
    assert_eq!(out, b"azAZ09-._~%20%2B%2F%3D%26%25%2A%C3%A9%00");
}

proptest! {
    #[test]
    fn encoded_text_is_decoded(text in any::<String>()) {
        let mut out = Vec::new();
        encode(&text, &mut out);
        prop_assert_eq!(decode(std::str::from_utf8(&out).unwrap()).unwrap(), text.as_str());
        prop_assert_eq!(encoded(&text).collect::<Vec<_>>(), out);
    }

    #[test]
    fn any_text_is_decoded_or_refused(raw in "[%+0-9a-fA-F\\PC]*") {
        if let Ok(text) = decode(&raw) {
            prop_assert!(text.len() <= raw.len());
        }
    }
}
