//! Numbers and byte strings survive their encoding; damage is an error, never a panic.

use proptest::prelude::*;

use super::*;

fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, value);
    out
}

fn reader(bytes: &[u8]) -> Reader {
    Reader::new(Bytes::copy_from_slice(bytes))
}

#[test]
fn varints_have_known_bytes() {
    for (value, bytes) in [
        (0, &[0x00][..]),
        (127, &[0x7f]),
        (128, &[0x80, 0x01]),
        (300, &[0xac, 0x02]),
        (
            u64::MAX,
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ),
    ] {
        assert_eq!(varint(value), bytes);
        assert_eq!(reader(bytes).varint(), Ok(value));
    }
}

#[test]
fn numbers_beyond_their_size_are_refused() {
    let mut beyond = [0xff; 10];
    beyond[9] = 0x02;
    let error = DecodeError::new("a number beyond 64 bits");
    assert_eq!(reader(&beyond).varint(), Err(error.clone()));
    assert_eq!(reader(&[0x80; 11]).varint(), Err(error));
    assert_eq!(
        reader(&varint(u64::from(u32::MAX))).varint_u32(),
        Ok(u32::MAX)
    );
    let error = DecodeError::new("a number beyond 32 bits");
    assert_eq!(reader(&varint(1 << 32)).varint_u32(), Err(error));
}

#[test]
fn lengths_and_counts_are_not_believed() {
    for size in [3, 1 << 20, u64::MAX] {
        let mut bytes = varint(size);
        bytes.extend_from_slice(b"ab");
        let error = DecodeError::new("a length beyond the input");
        assert_eq!(reader(&bytes).bytes(), Err(error));
        let error = DecodeError::new("a count beyond the input");
        assert_eq!(reader(&bytes).count(), Err(error));
    }
    let mut exact = varint(2);
    exact.extend_from_slice(b"ab");
    assert_eq!(reader(&exact).bytes(), Ok(Bytes::from_static(b"ab")));
    assert_eq!(reader(&exact).count(), Ok(2));
}

#[test]
fn the_end_is_where_nothing_is_left() {
    let mut reader = reader(b"x");
    assert_eq!(reader.end(), Err(DecodeError::new("bytes after the end")));
    assert_eq!(reader.remaining(), 1);
    assert_eq!(reader.byte(), Ok(b'x'));
    assert_eq!(reader.end(), Ok(()));
    assert_eq!(reader.byte(), Err(DecodeError::new("an early end")));
    assert_eq!(reader.varint(), Err(DecodeError::new("an early end")));
}

proptest! {
    #[test]
    fn sequences_round_trip(parts in any::<Vec<(u64, Vec<u8>)>>()) {
        let mut out = Vec::new();
        for (number, bytes) in &parts {
            put_varint(&mut out, *number);
            put_bytes(&mut out, bytes);
        }
        let mut reader = Reader::new(out.into());
        for (number, bytes) in &parts {
            prop_assert_eq!(reader.varint().unwrap(), *number);
            prop_assert_eq!(reader.bytes().unwrap(), bytes.as_slice());
        }
        prop_assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn garbage_never_panics(garbage in any::<Vec<u8>>()) {
        let _ = reader(&garbage).varint();
        let _ = reader(&garbage).varint_u32();
        let _ = reader(&garbage).bytes();
        let _ = reader(&garbage).count();
    }
}
