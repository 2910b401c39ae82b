//! A store of blocks: its bytes, random scripts against a map, damage, refusals.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use expect_test::expect;
use proptest::prelude::*;

use super::budget::Budget;
use super::format::{Before, SegmentId, block_size};
use super::opened::OPENED_MAX;
use super::pace::Pace;
use super::segment::Segment;
use super::sums::{piece_sums, whole_sum};
use super::{
    BLOCK_BYTES_MAX, Block, BlockBytes, BlockId, BlockRecovery, BlockSettings, Blocks, Origin,
    PIECE_BYTES, PutError, ReadError, Scrub,
};
use crate::storage::disk::{Disk, RealDisk, SyncSite};
use crate::support::SimulatedDisk;

const SETTINGS: BlockSettings = BlockSettings {
    segment_bytes: 4000,
    memory_bytes: 16 << 20,
    reserve_bytes: 0,
};
const NOW: Duration = Duration::from_secs(7);

fn new_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    disk.create_folder(Path::new("/data")).unwrap();
    disk
}

fn open_with(disk: &SimulatedDisk, settings: BlockSettings) -> (Blocks, BlockRecovery) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Blocks::open(Path::new("/data"), settings, &disk, NOW).unwrap()
}

fn open(disk: &SimulatedDisk) -> (Blocks, BlockRecovery) {
    open_with(disk, SETTINGS)
}

/// Bytes that differ from block to block and from place to place.
fn content(id: u128, size: usize) -> Vec<u8> {
    let bytes = (0..size).map(|at| (at as u128 * 31 + at as u128 / 251 + id * 7) as u8);
    bytes.collect()
}

fn put_bytes(blocks: &Blocks, id: u128, bytes: &[u8]) -> Result<(), PutError> {
    let Some(mut upload) = blocks.begin(Block::of(BlockId(id), bytes))? else {
        return Ok(());
    };
    for piece in bytes.chunks(1000) {
        upload.push(piece)?;
    }
    blocks.hold(vec![upload], NOW).remove(0)
}

fn put(blocks: &Blocks, id: u128, size: usize) -> Result<(), PutError> {
    put_bytes(blocks, id, &content(id, size))
}

fn whole(blocks: &Blocks, id: u128, size: usize) -> Result<Vec<u8>, ReadError> {
    let read = blocks.read(BlockId(id), 0..size as u32);
    read.map(|bytes| bytes.to_vec())
}

fn segments(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let mut files = disk.files();
    files.retain(|path| path.extension().is_some_and(|it| it == "blocks"));
    files
}

fn round(blocks: &Blocks) -> super::Scrubbed {
    let mut scrub = Scrub::new(1 << 40, Duration::ZERO);
    blocks.scrub(&mut scrub, Duration::from_secs(1))
}

/// The bytes of docs/reference/format/blocks.md.
#[test]
fn bytes_of_a_segment() {
    let disk = new_disk();
    let id = SegmentId {
        random: 0x1122_3344_5566_7788,
        sequence: 9,
    };
    let before = Some(Before {
        sequence: 8,
        end: 0x0102,
    });
    let mut segment = Segment::begin(&disk, Path::new("/data"), id, before).unwrap();
    for number in [1, 2] {
        let bytes = content(number, 5);
        let block = Block::of(BlockId(number), &bytes);
        segment
            .append(&block, piece_sums(&[&bytes]), &[&bytes])
            .unwrap();
        segment.sync(SyncSite::Blocks).unwrap();
    }
    segment.seal(SyncSite::BlockList).unwrap();
    let bytes = disk
        .content(Path::new("/data/0000000000000009.blocks"))
        .unwrap();
    let lines = bytes.chunks(16).map(|line| {
        let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        line.join(" ") + "\n"
    });
    expect![[r#"
        46 41 44 45 52 42 4c 4b 01 00 00 00 88 77 66 55
        44 33 22 11 09 00 00 00 00 00 00 00 08 00 00 00
        00 00 00 00 02 01 00 00 ad 66 2a cf c7 df 63 9a
        46 42 4c 4b 05 00 00 00 2c 00 00 00 01 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 63 44 2e 5d
        07 26 45 64 83 55 3e 33 f3 46 42 4c 4b 05 00 00
        00 55 00 00 00 02 00 00 00 00 00 00 00 00 00 00
        00 00 00 00 00 0b b7 e5 36 0e 2d 4c 6b 8a 01 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 2c 00
        00 00 05 00 00 00 63 44 2e 5d 02 00 00 00 00 00
        00 00 00 00 00 00 00 00 00 00 55 00 00 00 05 00
        00 00 0b b7 e5 36 46 41 44 45 52 4c 53 54 88 77
        66 55 44 33 22 11 09 00 00 00 00 00 00 00 7e 00
        00 00 02 00 00 00 3f 50 c2 32
    "#]]
    .assert_eq(&lines.collect::<String>());
}

#[test]
fn pieces_give_the_sum_of_the_whole() {
    for size in [1, 65_535, 65_536, 65_537, 300_000] {
        let bytes = content(3, size);
        let block = Block::of(BlockId(3), &bytes);
        assert_eq!(whole_sum(&piece_sums(&[&bytes]), block.size), block.sum);
    }
}

#[test]
fn ranges_of_blocks_of_several_pieces() {
    let disk = new_disk();
    let (blocks, _) = open(&disk);
    let sizes = [1, 65_535, 65_536, 65_537, 200_000];
    for (id, size) in sizes.into_iter().enumerate() {
        put(&blocks, id as u128, size).unwrap();
    }
    let (again, told) = open(&disk.copy());
    assert_eq!(told.damage, []);
    for (id, size) in sizes.into_iter().enumerate() {
        let id = id as u128;
        let bytes = content(id, size);
        for start in [0, 1, 65_535, 65_536, 131_072, size] {
            for end in [0, 1, 65_536, 65_537, 150_000, size] {
                if start <= end && end <= size {
                    let range = start as u32..end as u32;
                    let read = again.read(BlockId(id), range).unwrap();
                    assert_eq!(read, bytes[start..end], "{id}: {start}..{end}");
                }
            }
        }
        let (start, end) = (0, size as u32 + 1);
        let id = BlockId(id);
        let refused = ReadError::Range { id, start, end };
        assert_eq!(again.read(id, 0..end), Err(refused));
    }
}

#[test]
fn refusals_keep_nothing() {
    let disk = new_disk();
    let (blocks, _) = open(&disk);
    let of = |size, sum| Block {
        id: BlockId(1),
        size,
        sum,
    };
    assert_eq!(blocks.begin(of(0, 0)).unwrap_err(), PutError::Size(0));
    let large = BLOCK_BYTES_MAX + 1;
    assert_eq!(
        blocks.begin(of(large, 0)).unwrap_err(),
        PutError::Size(large)
    );
    let mut short = blocks.begin(of(10, 0)).unwrap().unwrap();
    short.push(&[0; 9]).unwrap();
    let over = PutError::Length { came: 11, told: 10 };
    assert_eq!(short.push(&[0; 2]), Err(over));
    let under = PutError::Length { came: 9, told: 10 };
    assert_eq!(blocks.hold(vec![short], NOW), [Err(under)]);
    let mut wrong = blocks.begin(of(3, 5)).unwrap().unwrap();
    wrong.push(b"abc").unwrap();
    assert_eq!(
        blocks.hold(vec![wrong], NOW),
        [Err(PutError::Sum(BlockId(1)))]
    );
    assert!(!blocks.is_held(BlockId(1)));
    put_bytes(&blocks, 1, b"abc").unwrap();
    put_bytes(&blocks, 1, b"abc").unwrap();
    assert_eq!(
        put_bytes(&blocks, 1, b"abd"),
        Err(PutError::Differs(BlockId(1)))
    );
    assert_eq!(blocks.counters().memory_bytes, 0);
    assert_eq!(blocks.counters().syncs, 1);
}

#[test]
fn a_block_that_comes_in_small_and_large_parts_is_read_as_it_was() {
    let (blocks, _) = open(&new_disk());
    let bytes = Bytes::from(content(1, 400_000));
    let ends = [
        1, 65_537, 65_538, 135_538, 201_074, 266_609, 399_999, 400_000,
    ];
    let mut parts = Vec::new();
    for (at, end) in ends.iter().enumerate() {
        let start = if at == 0 { 0 } else { ends[at - 1] };
        parts.push(bytes.slice(start..*end));
    }
    let whole = BlockBytes::of(BlockId(1), parts);
    assert_eq!(whole.block(), Block::of(BlockId(1), &bytes));
    let upload = blocks.gathered(whole, Origin::Client).unwrap();
    blocks.hold(vec![upload], NOW).remove(0).unwrap();
    assert_eq!(blocks.read(BlockId(1), 0..400_000).unwrap(), bytes);
    let range = blocks.read(BlockId(1), 65_530..200_001).unwrap();
    assert_eq!(range, bytes.slice(65_530..200_001));
}

/// What was read a moment ago is in the operating system's memory.
#[test]
fn bytes_in_memory_are_read_without_the_disk_and_compared_too() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let settings = BlockSettings {
        segment_bytes: 1 << 20,
        ..SETTINGS
    };
    let (blocks, _) = Blocks::open(folder.path(), settings, &disk, NOW).unwrap();
    let bytes = content(1, 200_000);
    put_bytes(&blocks, 1, &bytes).unwrap();
    let cached = |range| blocks.read_cached(BlockId(1), &range);
    assert_eq!(cached(0..200_000), None);
    assert_eq!(whole(&blocks, 1, 200_000).unwrap(), bytes);
    assert_eq!(cached(0..200_000).unwrap(), bytes);
    assert_eq!(cached(65_530..150_001).unwrap(), bytes[65_530..150_001]);
    assert_eq!(cached(0..200_001), None);
    assert_eq!(blocks.read_cached(BlockId(2), &(0..1)), None);
    let path = super::files::path(&folder.path().join("blocks"), 1);
    let mut file = disk.open(&path).unwrap();
    let at = file.size().unwrap() - 1;
    file.write_all_at(at, &[!bytes[199_999]]).unwrap();
    assert_eq!(cached(0..200_000), None);
    assert_eq!(cached(0..100_000).unwrap(), bytes[..100_000]);
    let simulated = new_disk();
    let (blocks, _) = open_with(&simulated, settings);
    put(&blocks, 1, 1000).unwrap();
    assert_eq!(blocks.read_cached(BlockId(1), &(0..1000)), None);
}

/// The disk has the space of a removed file back although its blocks were read a moment ago.
#[test]
fn few_blocks_stay_open_and_none_of_a_removed_file() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let (blocks, _) = Blocks::open(folder.path(), SETTINGS, &disk, NOW).unwrap();
    let count = OPENED_MAX as u128 + 4;
    for id in 0..count {
        put(&blocks, id, 1000).unwrap();
        assert_eq!(whole(&blocks, id, 1000).unwrap(), content(id, 1000));
        for range in [0..10, 500..1000] {
            let read = blocks.read_cached(BlockId(id), &range).unwrap();
            let range = range.start as usize..range.end as usize;
            assert_eq!(read, content(id, 1000)[range]);
        }
    }
    assert_eq!(blocks.opened.count(), OPENED_MAX);
    let all: Vec<BlockId> = (0..count).map(BlockId).collect();
    assert_eq!(blocks.remove(&all), count as u64);
    assert_eq!(blocks.read_cached(BlockId(count - 1), &(0..10)), None);
    while 0 < blocks.reclaim().unwrap().segments {}
    assert_eq!(blocks.counters().segments, 1);
    // Those of the segment that is written to, whose file is there.
    assert_eq!(blocks.opened.count(), count as usize % 3);
}

#[test]
fn uploads_have_no_more_than_their_memory() {
    let settings = BlockSettings {
        memory_bytes: u64::from(2 * block_size(1000)),
        ..SETTINGS
    };
    let (blocks, _) = open_with(&new_disk(), settings);
    let begin = |id| blocks.begin(Block::of(BlockId(id), &content(id, 1000)));
    let (first, second) = (begin(1).unwrap(), begin(2).unwrap());
    assert_eq!(begin(3).unwrap_err(), PutError::Memory);
    drop(first);
    assert!(begin(3).unwrap().is_some());
    drop(second);
    let mut budget = Budget::new(5);
    assert!(budget.take(5) && !budget.take(1));
    budget.give(5);
    assert!(!budget.take(6) && budget.take(u64::from(5_u8)));
}

#[test]
fn one_sync_serves_all_that_wait_and_each_has_its_answer() {
    let disk = new_disk();
    let settings = BlockSettings {
        segment_bytes: 1 << 20,
        ..SETTINGS
    };
    let (blocks, _) = open_with(&disk, settings);
    let upload = |id, told: &[u8], sent: &[u8]| {
        let mut upload = blocks.begin(Block::of(BlockId(id), told)).unwrap().unwrap();
        upload.push(sent).unwrap();
        upload
    };
    let uploads = vec![
        upload(1, b"one", b"one"),
        upload(2, b"two", b"owt"),
        upload(3, b"three", b"three"),
    ];
    let answers = blocks.hold(uploads, NOW);
    assert_eq!(answers, [Ok(()), Err(PutError::Sum(BlockId(2))), Ok(())]);
    assert_eq!(blocks.counters().syncs, 1);
    // The same block twice is written once; another one of that id is refused.
    let uploads = vec![
        upload(4, b"four", b"four"),
        upload(4, b"four", b"four"),
        upload(4, b"FOUR", b"FOUR"),
    ];
    let answers = blocks.hold(uploads, NOW);
    assert_eq!(
        answers,
        [Ok(()), Ok(()), Err(PutError::Differs(BlockId(4)))]
    );
    assert_eq!(blocks.counters().blocks, 3);
    assert_eq!(blocks.counters().dead_bytes, 0);
}

#[test]
fn below_the_reserve_blocks_are_refused_and_space_can_be_reclaimed() {
    let disk = new_disk();
    let settings = BlockSettings {
        reserve_bytes: 3000,
        ..SETTINGS
    };
    let (blocks, _) = open_with(&disk, settings);
    let ids: Vec<BlockId> = (0..8).map(BlockId).collect();
    ids.iter().for_each(|id| put(&blocks, id.0, 1000).unwrap());
    disk.set_bytes_free(Some(3500));
    assert_eq!(put(&blocks, 9, 1000), Err(PutError::Full));
    put(&blocks, 10, 100).unwrap();
    // Room that was there at the beginning is gone when the block is written.
    let bytes = content(11, 300);
    let mut late = blocks
        .begin(Block::of(BlockId(11), &bytes))
        .unwrap()
        .unwrap();
    late.push(&bytes).unwrap();
    disk.set_bytes_free(Some(3100));
    assert_eq!(blocks.hold(vec![late], NOW), [Err(PutError::Full)]);
    // The reserve is there for what frees space.
    blocks.remove(&[ids[0], ids[1], ids[3], ids[4]]);
    assert_eq!(blocks.reclaim().unwrap().segments, 2);
    assert_eq!(whole(&blocks, 2, 1000).unwrap(), content(2, 1000));
    // A disk that is full at last: nothing is lost, and the block is taken when there is room.
    disk.set_bytes_free(Some(3200));
    let (again, _) = open_with(&disk, SETTINGS);
    disk.set_bytes_free(Some(60));
    assert_eq!(put(&again, 12, 1000), Err(PutError::Full));
    disk.set_bytes_free(Some(1_080));
    assert_eq!(put(&again, 12, 1000), Err(PutError::Full));
    disk.set_bytes_free(None);
    put(&again, 12, 1000).unwrap();
    for id in [2, 5, 6, 7, 12] {
        assert_eq!(whole(&again, id, 1000).unwrap(), content(id, 1000));
    }
}

/// It shows BSTORE-7.
#[test]
fn bytes_of_another_member_may_take_a_quarter_of_the_reserve() {
    let disk = new_disk();
    let settings = BlockSettings {
        reserve_bytes: 4000,
        ..SETTINGS
    };
    let (blocks, _) = open_with(&disk, settings);
    let begin = |id, origin| {
        let bytes = BlockBytes::of(BlockId(id), vec![content(id, 300).into()]);
        blocks.gathered(bytes, origin)
    };
    // Both were begun when there was room. They are written in one group.
    let early = [Origin::Client, Origin::Member].map(|origin| begin(origin as u128, origin));
    disk.set_bytes_free(Some(4000));
    assert_eq!(begin(2, Origin::Client).unwrap_err(), PutError::Full);
    let early = early.map(Result::unwrap).into_iter().collect();
    assert_eq!(blocks.hold(early, NOW), [Err(PutError::Full), Ok(())]);
    // The rest is for the log, the engine and what frees space.
    let least = 3000 + block_size(300) as usize;
    disk.set_bytes_free(Some(least));
    let last = begin(2, Origin::Member).unwrap();
    disk.set_bytes_free(Some(least - 1));
    assert_eq!(begin(3, Origin::Member).unwrap_err(), PutError::Full);
    assert_eq!(blocks.hold(vec![last], NOW), [Err(PutError::Full)]);
    assert_eq!(blocks.counters().blocks, 1);
    assert_eq!(whole(&blocks, 1, 300).unwrap(), content(1, 300));
}

/// Four blocks, the first three in a sealed segment.
fn sealed_and_open() -> SimulatedDisk {
    let disk = new_disk();
    let (blocks, _) = open(&disk);
    (1..=4).for_each(|id| put(&blocks, id, 1200).unwrap());
    assert_eq!(segments(&disk).len(), 2);
    disk.copy()
}

/// It shows BSTORE-4.
#[test]
fn a_flipped_byte_anywhere_is_found_and_nothing_else_is_lost() {
    let pristine = sealed_and_open();
    for path in segments(&pristine) {
        for at in 0..pristine.content(&path).unwrap().len() {
            let disk = pristine.copy();
            let (blocks, _) = open(&disk);
            disk.flip(&path, at, 0x10);
            let reads: Vec<_> = (1..=4).map(|id| whole(&blocks, id, 1200)).collect();
            let bad = blocks.bad();
            for (id, read) in (1..).zip(&reads) {
                match read {
                    Ok(bytes) => assert_eq!(*bytes, content(id, 1200)),
                    Err(ReadError::Damaged(damage)) => {
                        assert_eq!(damage.path, path);
                        assert!(damage.offset <= at as u64, "{damage} {at}");
                        assert_eq!(bad, [Block::of(BlockId(id), &content(id, 1200))]);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(reads.iter().filter(|read| read.is_err()).count() <= 1);
            let scrubbed = round(&blocks);
            assert_eq!(scrubbed.bad.len(), 1, "{at} of {}", path.display());
            assert!(scrubbed.is_round);
            assert_eq!(
                scrubbed.bad[0].block.is_some(),
                !bad.is_empty(),
                "scrub and read agree"
            );
            // Good bytes, or a rewrite, mend it.
            for block in blocks.bad() {
                assert!(!blocks.is_held(block.id));
                put(&blocks, block.id.0, 1200).unwrap();
                assert!(blocks.is_held(block.id));
            }
            while 0 < blocks.reclaim().unwrap().segments {}
            let scrubbed = round(&blocks);
            assert_eq!(scrubbed.bad, [], "{at} of {}", path.display());
            for id in 1..=4 {
                assert_eq!(whole(&blocks, id, 1200).unwrap(), content(id, 1200));
            }
        }
    }
}

#[test]
fn a_start_finds_all_that_a_flipped_byte_left() {
    let pristine = new_disk();
    let (blocks, _) = open(&pristine);
    (1..=4).for_each(|id| put(&blocks, id, 1200).unwrap());
    // As a process that was killed leaves it: the second segment has no list.
    for path in segments(&pristine) {
        let size = pristine.content(&path).unwrap().len();
        for at in 0..size {
            let disk = pristine.copy();
            disk.flip(&path, at, 0x01);
            let (again, told) = open(&disk);
            let scrubbed = round(&again);
            let good = (1..=4).filter(|id| match whole(&again, *id, 1200) {
                Ok(bytes) => {
                    assert_eq!(bytes, content(*id, 1200));
                    true
                }
                Err(_) => false,
            });
            let good = good.count();
            let is_told = !told.damage.is_empty()
                || !told.notes.is_empty()
                || !scrubbed.bad.is_empty()
                || 1 < told.scanned;
            assert!(is_told, "{at} of {}", path.display());
            // The header of a segment without a list makes all of it unreadable.
            assert!(3 <= good, "{good} are left of {at} of {}", path.display());
        }
    }
}

#[test]
fn missing_durable_bytes_are_damage_and_not_a_torn_tail() {
    let settings = BlockSettings {
        segment_bytes: 1 << 20,
        ..SETTINGS
    };
    let pristine = new_disk();
    let (blocks, _) = open_with(&pristine, settings);
    (1..=4).for_each(|id| put(&blocks, id, 1200).unwrap());
    let path = segments(&pristine).remove(0);
    let start = 44 + block_size(1200) as usize;
    // Of the second block a byte of the header, and one of the body.
    for at in [start + 9, start + 500] {
        let disk = pristine.copy();
        disk.flip(&path, at, 0x01);
        let (again, told) = open_with(&disk, settings);
        assert_eq!(told.damage.len(), 1, "{:?}", told.damage);
        assert_eq!(told.damage[0].path, path);
        for id in [1, 3, 4] {
            assert_eq!(whole(&again, id, 1200).unwrap(), content(id, 1200));
        }
        assert!(!again.is_held(BlockId(2)));
        put(&again, 2, 1200).unwrap();
        assert_eq!(whole(&again, 2, 1200).unwrap(), content(2, 1200));
    }
}

#[test]
fn a_torn_tail_is_cut_at_any_byte() {
    let settings = BlockSettings {
        segment_bytes: 1 << 20,
        ..SETTINGS
    };
    let pristine = new_disk();
    let (blocks, _) = open_with(&pristine, settings);
    (1..=3).for_each(|id| put(&blocks, id, 200).unwrap());
    let path = segments(&pristine).remove(0);
    let size = pristine.content(&path).unwrap().len();
    let ends: Vec<usize> = (0..=3)
        .map(|it| 44 + it * block_size(200) as usize)
        .collect();
    for cut in 0..size {
        let disk = pristine.copy();
        disk.open(&path).unwrap().set_size(cut as u64).unwrap();
        let (again, told) = open_with(&disk, settings);
        let left = ends.iter().filter(|end| **end <= cut).count().max(1) - 1;
        assert_eq!(again.counters().blocks, left as u64, "cut at {cut}");
        assert_eq!(told.damage, [], "cut at {cut}");
        put(&again, 9, 200).unwrap();
        let (third, told) = open_with(&disk.copy(), settings);
        assert_eq!((told.damage, told.scanned), (Vec::new(), 1));
        assert_eq!(third.counters().blocks, left as u64 + 1);
    }
}

#[test]
fn reclaim_keeps_the_living_and_gives_back_the_rest() {
    let disk = new_disk();
    let (blocks, _) = open(&disk);
    (0..30).for_each(|id| put(&blocks, id, 1000).unwrap());
    assert_eq!(segments(&disk).len(), 10);
    assert_eq!(blocks.reclaim().unwrap(), super::Reclaimed::default());
    let removed: Vec<BlockId> = (0..30).filter(|id| id % 3 != 0).map(BlockId).collect();
    assert_eq!(blocks.remove(&removed), 20);
    assert_eq!(blocks.remove(&removed), 0);
    let mut files = 0;
    loop {
        match blocks.reclaim().unwrap().segments {
            0 => break,
            removed => files += removed,
        }
    }
    assert_eq!(files, 9);
    for id in 0..30 {
        match id % 3 {
            0 => assert_eq!(whole(&blocks, id, 1000).unwrap(), content(id, 1000)),
            _ => assert!(!blocks.is_held(BlockId(id))),
        }
    }
    assert!(segments(&disk).len() <= 5, "{:?}", segments(&disk));
    let (again, told) = open(&disk.copy());
    assert_eq!((again.counters().blocks, told.scanned), (10 + 2, 1));
}

#[test]
fn blocks_tell_when_they_came_in_pages() {
    let disk = new_disk();
    let (blocks, _) = open(&disk);
    (0..5).for_each(|id| put(&blocks, id, 1000).unwrap());
    let ids = |page: Vec<super::HeldBlock>| -> Vec<u128> {
        page.iter().map(|held| held.block.id.0).collect()
    };
    assert_eq!(ids(blocks.page(None, 2)), [0, 1]);
    assert_eq!(ids(blocks.page(Some(BlockId(1)), 9)), [2, 3, 4]);
    blocks.remove(&[0, 1].map(BlockId));
    while 0 < blocks.reclaim().unwrap().segments {}
    assert!(blocks.page(None, 9).iter().all(|held| held.since == NOW));
}

#[test]
fn a_pace_grants_no_more_than_its_rate() {
    let at = Duration::from_millis;
    let mut pace = Pace::new(1000, at(0));
    assert_eq!(pace.granted(at(0)), 0);
    assert_eq!(pace.granted(at(500)), 500);
    assert_eq!(pace.granted(at(500)), 500);
    pace.spend(800);
    assert_eq!(pace.granted(at(700)), 0);
    assert_eq!(pace.granted(at(900)), 100);
    assert_eq!(pace.granted(at(60_000)), 1000);
    // Time too short for a byte adds up.
    let mut slow = Pace::new(1, at(0));
    let granted = (1..=3000).map(|now| slow.granted(at(now))).max();
    assert_eq!(granted, Some(1));
}

#[test]
fn a_scrub_goes_on_at_its_rate() {
    let disk = new_disk();
    let (blocks, _) = open(&disk);
    (0..10).for_each(|id| put(&blocks, id, 1000).unwrap());
    let mut scrub = Scrub::new(2000, Duration::ZERO);
    let (mut bytes, mut second) = (0, 0);
    loop {
        second += 1;
        let done = blocks.scrub(&mut scrub, Duration::from_secs(second));
        bytes += done.bytes;
        assert!(bytes <= second * 2000 + u64::from(block_size(1000)));
        if done.is_round {
            break;
        }
    }
    assert!(10_000 < bytes);
}

/// It shows BSTORE-6.
#[test]
fn a_repair_outlives_a_start() {
    let disk = new_disk();
    let (blocks, _) = open(&disk);
    (1..=4).for_each(|id| put(&blocks, id, 1200).unwrap());
    blocks.remove(&[1, 2].map(BlockId));
    assert_eq!(blocks.reclaim().unwrap().segments, 1);
    // Block 3 lies behind the segment that is written.
    let path = segments(&disk).pop().unwrap();
    disk.flip(&path, 500, 1);
    assert!(whole(&blocks, 3, 1200).is_err());
    put(&blocks, 3, 1200).unwrap();
    let (again, _) = open(&disk.copy());
    assert_eq!(whole(&again, 3, 1200).unwrap(), content(3, 1200));
}

#[derive(Clone, Debug)]
enum Step {
    Put(u128),
    Remove(u128),
    Read(u128),
    Reclaim,
    Scrub,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = 0..12_u128;
    let step = prop_oneof![
        6 => id.clone().prop_map(Step::Put),
        4 => id.clone().prop_map(Step::Remove),
        2 => id.prop_map(Step::Read),
        2 => Just(Step::Reclaim),
        1 => Just(Step::Scrub),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..60)
}

/// An id has the same bytes whenever it is put.
fn size_of(id: u128) -> usize {
    match id {
        0 => 1,
        11 => 2 * PIECE_BYTES as usize + 1,
        id => 137 * id as usize,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A store is a map. What was removed may come back at a start, and is removed again.
    #[test]
    fn a_store_is_a_map(steps in steps()) {
        let disk = new_disk();
        let (mut blocks, _) = open(&disk);
        let mut held: BTreeSet<u128> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Put(id) => {
                    prop_assert_eq!(put(&blocks, id, size_of(id)), Ok(()));
                    held.insert(id);
                }
                Step::Remove(id) => {
                    let removed = blocks.remove(&[BlockId(id)]);
                    prop_assert_eq!(removed, u64::from(held.remove(&id)));
                }
                Step::Read(id) if held.contains(&id) => {
                    let size = size_of(id);
                    prop_assert_eq!(whole(&blocks, id, size), Ok(content(id, size)));
                }
                Step::Read(id) => {
                    let absent = ReadError::Absent(BlockId(id));
                    prop_assert_eq!(blocks.read(BlockId(id), 0..0), Err(absent));
                }
                Step::Reclaim => {
                    blocks.reclaim().unwrap();
                }
                Step::Scrub => prop_assert_eq!(round(&blocks).bad, []),
                Step::Restart => {
                    let (again, told) = open(&disk);
                    prop_assert_eq!(told.damage, []);
                    blocks = again;
                    for it in blocks.page(None, usize::MAX) {
                        if !held.contains(&it.block.id.0) {
                            blocks.remove(&[it.block.id]);
                        }
                    }
                }
            }
            prop_assert_eq!(blocks.counters().blocks, held.len() as u64);
        }
        for id in held {
            let size = size_of(id);
            prop_assert_eq!(whole(&blocks, id, size), Ok(content(id, size)));
        }
        // Nothing is left of what is dead but in segments that are at least half alive.
        while 0 < blocks.reclaim().unwrap().segments {}
        let counters = blocks.counters();
        let open = u64::from(SETTINGS.segment_bytes + block_size(2 * PIECE_BYTES + 2));
        prop_assert!(counters.dead_bytes <= counters.alive_bytes + open);
    }
}

#[test]
fn threads_write_read_remove_and_reclaim_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let settings = BlockSettings {
        segment_bytes: 200_000,
        ..SETTINGS
    };
    let (blocks, _) = Blocks::open(folder.path(), settings, &disk, NOW).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u128)
            .map(|writer| {
                let blocks = &blocks;
                scope.spawn(move || {
                    for number in 0..40_u128 {
                        let id = writer * 1000 + number;
                        put(blocks, id, 20_000).unwrap();
                        assert_eq!(whole(blocks, id, 20_000).unwrap(), content(id, 20_000));
                        if 0 < number && number % 4 != 1 {
                            let old = id - 1;
                            assert_eq!(whole(blocks, old, 20_000).unwrap(), content(old, 20_000));
                            assert_eq!(blocks.remove(&[BlockId(old)]), 1);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                blocks.reclaim().unwrap();
                assert_eq!(round(&blocks).bad, []);
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let left = blocks.counters().blocks;
    assert_eq!(left, 4 * 10 + 4);
    drop(blocks);
    let (again, told) = Blocks::open(folder.path(), settings, &disk, NOW).unwrap();
    assert_eq!(told.damage, []);
    for held in again.page(None, usize::MAX) {
        let id = held.block.id.0;
        assert_eq!(whole(&again, id, 20_000).unwrap(), content(id, 20_000));
    }
    assert!(left <= again.counters().blocks);
}
