//! What a token has room for.

use super::*;
use crate::stamp::Stamp;

fn name(seq: usize) -> RequestId {
    RequestId {
        client: 1_u128.into(),
        seq: seq as u64,
        part: 0,
    }
}

fn key(size: usize) -> Bytes {
    vec![b'k'; size].into()
}

/// The numbers of what is crowded out where `known` are in the token and `written` come, each with
/// keys of so many bytes.
fn crowded_out(known: usize, written: usize, size: usize) -> Vec<u64> {
    let tentative = (0..known).map(|seq| (key(size), Stamp::default(), name(seq)));
    let session = Session {
        tentative: tentative.collect(),
        ..Session::default()
    };
    let writes = (known..known + written).map(|seq| Written {
        name: name(seq),
        key: key(size),
        status: OperationStatus::Tentative(Stamp::default()),
    });
    let crowded_out = session.crowded_out_by(&writes.collect::<Vec<_>>());
    crowded_out.iter().map(|name| name.seq).collect()
}

#[test]
fn the_oldest_are_crowded_out() {
    let cases: [(usize, usize, usize, &[u64]); 6] = [
        (0, 1, 10, &[]),
        (31, 1, 10, &[]),
        (32, 1, 10, &[0]),
        (10, 25, 10, &[0, 1, 2]),
        (7, 2, 1 << 10, &[0]),
        // Those of the write itself, too: it is acknowledged when they are settled.
        (1, 10, 1 << 10, &[0, 1, 2]),
    ];
    for (known, written, size, expected) in cases {
        assert_eq!(
            crowded_out(known, written, size),
            expected,
            "{known}+{written} x {size}"
        );
    }
}
