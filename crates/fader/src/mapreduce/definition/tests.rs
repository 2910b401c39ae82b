//! Sizes, words of a shell, and outputs that would be their own input.

use super::*;

#[test]
fn sizes_have_units() {
    assert_eq!(bytes("512MiB"), Ok(512 << 20));
    assert_eq!(bytes("7"), Ok(7));
    for wrong in ["", "0", "1MB", "-1", "99999999999GiB"] {
        assert!(bytes(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn words_are_quoted_for_a_shell() {
    assert_eq!(quoted("file:///a/b"), "file:///a/b");
    assert_eq!(quoted("a/**"), "'a/**'");
    assert_eq!(quoted("it's"), "'it'\\''s'");
}

#[test]
fn an_output_inside_the_input_is_seen() {
    let cases = [
        ("file:///a/out", "file:///a/**", true),
        ("file:///a", "file:///a/**", true),
        ("file:///a/out", "file:///a/*.txt", false),
        ("file:///ab", "file:///a/**", false),
        ("file:///b", "file:///a/**", false),
        (
            "s3://b/out?endpoint=http://h",
            "s3://b/**?endpoint=http://h",
            true,
        ),
    ];
    for (output, input, is) in cases {
        let pattern = Pattern::parse(input).expect(input);
        assert_eq!(is_inside(output, &pattern), is, "{output} {input}");
    }
}
