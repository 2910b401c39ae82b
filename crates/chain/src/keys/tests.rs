//! The chain's keys come back from their bytes, and sort as what they name.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(key: &Bytes, expected: &Expect) {
    let rest = key
        .strip_prefix(&[0xff; 8])
        .expect("behind every collection");
    let hex = |byte: &u8| format!("{byte:02x}");
    expected.assert_eq(&rest.iter().map(hex).collect::<String>());
}

#[test]
fn bytes_are_frozen() {
    let request = RequestId {
        client: 0x0102_u128.into(),
        seq: 3,
        part: 4,
    };
    check(
        &result_key(request),
        &expect!["7100000000000000000000000000000102000000000000000300000004"],
    );
    check(
        &client_key(0x0102_u128.into()),
        &expect!["6300000000000000000000000000000102"],
    );
    check(
        &result_key(request.owned_by(0x0506)),
        &expect!["73000000000000050600000000000000000000000000000102000000000000000300000004"],
    );
    check(
        &client_key(request.owned_by(0x0506).client),
        &expect!["64000000000000050600000000000000000000000000000102"],
    );
    check(
        &row_key(EntryId::new(5, 6), b"item"),
        &expect!["72000000000000000500000000000000066974656d"],
    );
}

fn any_request() -> impl Strategy<Value = RequestId> {
    let owner = prop_oneof![Just(0), any::<u64>(), 1_u64..4];
    let id = prop_oneof![any::<u128>(), Just(u128::MAX)];
    (owner, id, any::<u64>(), any::<u32>()).prop_map(|(owner, id, seq, part)| RequestId {
        client: Client { owner, id },
        seq,
        part,
    })
}

fn any_row() -> impl Strategy<Value = (EntryId, Vec<u8>)> {
    let register = prop::collection::vec(any::<u8>(), 0..20);
    (any::<u64>(), any::<u64>(), register)
        .prop_map(|(epoch, index, register)| (EntryId::new(epoch, index), register))
}

proptest! {
    #[test]
    fn results_and_clients_round_trip_in_order(one in any_request(), other in any_request()) {
        prop_assert_eq!(parse_result_key(&result_key(one)), Some(one));
        prop_assert_eq!(parse_client_key(&client_key(one.client)), Some(one.client));
        prop_assert_eq!(result_key(one).cmp(&result_key(other)), one.cmp(&other));
        prop_assert_eq!(
            client_key(one.client).cmp(&client_key(other.client)),
            one.client.cmp(&other.client)
        );
    }

    #[test]
    fn rows_round_trip_in_order(one in any_row(), other in any_row()) {
        let key = |row: &(EntryId, Vec<u8>)| row_key(row.0, &row.1);
        let bytes = key(&one);
        prop_assert_eq!(parse_row_key(&bytes), Some((one.0, one.1.as_slice())));
        prop_assert_eq!(key(&one).cmp(&key(&other)), one.cmp(&other));
    }

    #[test]
    fn a_key_is_of_one_kind(
        table in prop::sample::select(vec![RESULTS, CLIENTS, ROWS, b'x']),
        rest in prop::collection::vec(any::<u8>(), 14..30),
    ) {
        let key = key(table, &[&rest]);
        let client_size = size_of::<u128>();
        let is_result = table == RESULTS && rest.len() == client_size + 12;
        prop_assert_eq!(parse_result_key(&key).is_some(), is_result);
        let is_client = table == CLIENTS && rest.len() == client_size;
        prop_assert_eq!(parse_client_key(&key).is_some(), is_client);
        prop_assert_eq!(parse_row_key(&key).is_some(), table == ROWS && 16 <= rest.len());
        prop_assert_eq!(parse_row_key(&key[1..]), None);
    }
}
