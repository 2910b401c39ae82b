//! Splits cover the input once, and are about as large as asked.

use proptest::prelude::*;

use super::*;

fn object(number: usize, bytes: u64, is_cut: bool) -> InputObject {
    InputObject {
        input: 0,
        key: format!("{number}"),
        bytes,
        e_tag: None,
        is_cut,
    }
}

proptest! {
    #[test]
    fn splits_cover_every_byte_once(
        sizes in prop::collection::vec((0u64..5_000, any::<bool>()), 0..40),
        split_bytes in 1u64..3_000,
    ) {
        let objects: Vec<InputObject> = sizes
            .iter()
            .enumerate()
            .map(|(number, (bytes, is_cut))| object(number, *bytes, *is_cut))
            .collect();
        let splits = pack(&objects, split_bytes);
        for object in &objects {
            let mut pieces: Vec<&Piece> =
                splits.iter().flatten().filter(|piece| piece.key == object.key).collect();
            pieces.sort_by_key(|piece| piece.offset);
            let mut end = 0;
            for piece in pieces {
                prop_assert_eq!(piece.offset, end);
                prop_assert!(0 < piece.bytes);
                prop_assert!(!object.is_cut || piece.bytes <= split_bytes * 11 / 10 + 1);
                end += piece.bytes;
            }
            prop_assert_eq!(end, object.bytes);
        }
        prop_assert!(splits.iter().all(|split| !split.is_empty()));
    }
}

#[test]
fn small_objects_share_a_split() {
    let objects: Vec<InputObject> = (0..18_000)
        .map(|number| object(number, 7_000, true))
        .collect();
    let splits = pack(&objects, 64 << 20);
    assert_eq!(splits.len(), 20);
}

#[test]
fn nine_bytes_in_six_splits_are_as_many_as_they_are() {
    let splits = pack(&[object(0, 9, true)], 2);
    let bytes: u64 = splits.iter().flatten().map(|piece| piece.bytes).sum();
    assert_eq!(bytes, 9);
}

#[test]
fn ranges_divide_a_sample_evenly() {
    let sample: Vec<Vec<u8>> = (0..100u8).rev().map(|byte| vec![byte]).collect();
    assert_eq!(ranges(sample, 4), [vec![25], vec![50], vec![75]]);
    assert_eq!(ranges(Vec::new(), 4), Vec::<Vec<u8>>::new());
}
