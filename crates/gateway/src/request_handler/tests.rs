//! Tests of what sockets do not show easily.

use super::*;

/// It shows CONN-2.
#[tokio::test]
async fn a_panic_is_caught_and_nothing_else_is() {
    assert_eq!(caught(pin!(async { 7 })).await, Some(7));
    let later = pin!(async {
        tokio::task::yield_now().await;
        8
    });
    assert_eq!(caught(later).await, Some(8));
    let panics = pin!(async {
        tokio::task::yield_now().await;
        panic!("on purpose")
    });
    assert_eq!(caught(panics).await, None::<()>);
}

#[test]
fn request_ids_are_random_uuids() {
    let id = request_id();
    let lengths: Vec<_> = id.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
    assert!(
        id.bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')),
        "{id}"
    );
    assert_eq!(&id[14..15], "4", "{id}");
    assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
    assert_ne!(id, request_id());
}

#[test]
fn forms_are_told_by_their_type() {
    for (content_type, expected) in [
        (None, true),
        (Some("application/x-www-form-urlencoded"), true),
        (
            Some("Application/X-WWW-Form-Urlencoded ; charset=UTF-8"),
            true,
        ),
        (Some(""), false),
        (Some("application/x-www-form-urlencoded2"), false),
        (Some("application/json"), false),
    ] {
        let value = content_type.map(HeaderValue::from_static);
        assert_eq!(is_form(value.as_ref()), expected, "{content_type:?}");
    }
}
