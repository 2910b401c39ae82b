//! Writes past the cache against the same writes into it.

use std::fs;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use crate::storage::disk::{Disk, RealDisk, SyncSite};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The file holds each write, and elsewhere what it held.
    #[test]
    fn the_file_is_as_if_written_at_once(
        size in 0..300_000_u64,
        before in prop::collection::vec((0..200_000_u64, 1..9_000_usize), 0..3),
        writes in prop::collection::vec(
            (0..200_000_u64, 1..150_000_usize, prop::option::of(0..300_000_u64)),
            1..8,
        ),
        is_log in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (path, plain) = (folder.path().join("through"), folder.path().join("plain"));
        let mut through = RealDisk.create(&path).unwrap();
        let plain = fs::File::create_new(plain).unwrap();
        through.set_size(size).unwrap();
        plain.set_len(size).unwrap();
        for (number, (offset, count)) in before.into_iter().enumerate() {
            let bytes = vec![101 + number as u8; count];
            through.write_all_at(offset, &bytes).unwrap();
            plain.write_all_at(&bytes, offset).unwrap();
        }
        through.write_through();
        let mut end = 0;
        for (number, (offset, count, cut)) in writes.into_iter().enumerate() {
            if let Some(size) = cut {
                through.set_size(size).unwrap();
                plain.set_len(size).unwrap();
            }
            let offset = if is_log { end } else { offset };
            let bytes = vec![1 + number as u8; count];
            through.write_all_at(offset, &bytes).unwrap();
            through.sync(SyncSite::Entries).unwrap();
            plain.write_all_at(&bytes, offset).unwrap();
            end = offset + count as u64;
        }
        let (written, mut expected) = (
            fs::read(&path).unwrap(),
            fs::read(folder.path().join("plain")).unwrap(),
        );
        // The last block is whole.
        prop_assert!(written.len() < expected.len() + 4096);
        expected.resize(written.len(), 0);
        prop_assert!(written == expected);
    }
}
