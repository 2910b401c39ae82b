//! Frames as ZooKeeper's own client writes them, and replies that are none.

use expect_test::expect;
use proptest::prelude::*;

use super::{In, Malformed, Op, Out};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_request_is_framed() {
    let mut out = Out::request(3, Op::SetData);
    out.string("/a");
    out.buffer(b"xyz");
    out.int(-1);
    expect!["000000190000000300000005000000022f610000000378797affffffff"]
        .assert_eq(&hex(&out.frame()));
}

#[test]
fn a_reply_is_read_to_where_it_ends() {
    let mut body = Out::new();
    body.buffer(b"xyz");
    for number in 1..5 {
        body.long(number);
    }
    body.int(42);
    let frame = body.frame();
    let mut reply = In::new(&frame[4..]);
    assert_eq!(reply.buffer(), Ok(&b"xyz"[..]));
    assert_eq!(reply.stat(), Ok((1, 42)));
    assert_eq!(reply.int(), Err(Malformed));
    let none = (-1_i32).to_be_bytes();
    assert_eq!(In::new(&none).buffer(), Ok(&b""[..]));
    for size in [-2_i32, 1, i32::MAX] {
        assert_eq!(In::new(&size.to_be_bytes()).buffer(), Err(Malformed));
    }
}

proptest! {
    /// It shows ZKWIRE-1.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut reply = In::new(&bytes);
        while reply.string().is_ok() {}
        let _ = In::new(&bytes).stat();
    }
}
