//! A session comes back as it went; damage is reported.

use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn operations() -> impl Strategy<Value = (Bytes, Stamp, RequestId)> {
    let register = prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    let stamp =
        any::<(u64, u64, u64, u32, u32)>().prop_map(|(epoch, index, clock, node, counter)| Stamp {
            base: EntryId::new(epoch, index),
            clock,
            node,
            counter,
        });
    let name = any::<(u128, u64, u32)>().prop_map(|(client, seq, part)| RequestId {
        client: client.into(),
        seq,
        part,
    });
    (register, stamp, name)
}

fn encoded(session: &Session) -> Bytes {
    let mut bytes = Vec::new();
    session.encode(&mut bytes);
    Bytes::from(bytes)
}

proptest! {
    #[test]
    fn sessions_come_back(
        (epoch, index) in any::<(u64, u64)>(),
        tentative in prop::collection::vec(operations(), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let session = Session {
            committed: EntryId::new(epoch, index),
            tentative,
        };
        let bytes = encoded(&session);
        for size in 0..bytes.len() {
            prop_assert!(Session::decode(bytes.slice(..size)).is_err());
        }
        prop_assert_eq!(Session::decode(bytes), Ok(session));
        drop(Session::decode(Bytes::from(noise)));
    }
}

#[test]
fn bytes_are_frozen() {
    let session = Session {
        committed: EntryId::new(3, 300),
        tentative: vec![(
            Bytes::from_static(b"tom"),
            Stamp::strong(EntryId::new(2, 7)),
            RequestId {
                client: u128::from_be_bytes(*b"sixteen bytes...").into(),
                seq: 5,
                part: 1,
            },
        )],
    };
    let bytes = encoded(&session).escape_ascii().to_string();
    expect![[r#"\x01\x03\xac\x02\x01\x03tom\x01\x02\x07sixteen bytes...\x05\x01"#]]
        .assert_eq(&bytes);
}
