//! The log's bytes, and what is read back after they were cut, changed or lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use expect_test::expect;
use fader_chain::{
    ChainMember, Change, Configuration, DiskId, ElementOp, Entry, EntryId, Incarnation, NodeId,
    Operation, Record, RequestId, Role, Stamp, Wiring,
};
use proptest::prelude::*;

use super::{Durability, Log, Replayed, payload};
use crate::status::OpenError;
use crate::storage::disk::Disk;
use crate::support::SimulatedDisk;

const SEGMENT_BYTES: u64 = 400;

fn entry(epoch: u64, prev: EntryId, size: usize) -> Entry {
    let id = EntryId::new(epoch, prev.index + 1);
    let key = Bytes::from(vec![b'k'; size]);
    let changes = vec![Change::Remove { key }];
    let stamp = Stamp::strong(id);
    Entry {
        id,
        prev,
        safe_point: EntryId::ZERO,
        stamp,
        request: None,
        result: Bytes::new(),
        changes,
    }
}

fn records(entries: &[Arc<Entry>]) -> Vec<Record> {
    entries.iter().cloned().map(Record::Entry).collect()
}

/// A log being written, and what was written.
struct Writer {
    disk: SimulatedDisk,
    log: Log,
    epoch: u64,
    entries: Vec<Arc<Entry>>,
}

fn open(disk: &SimulatedDisk, durability: Durability) -> Result<Log, OpenError> {
    let (log, _) = Log::open(
        Arc::new(disk.clone()),
        Path::new("/log"),
        durability,
        SEGMENT_BYTES,
        7,
    )?;
    Ok(log)
}

/// What is said of a log that is damaged.
fn damage(disk: &SimulatedDisk) -> Option<String> {
    let error = read(disk).err().filter(OpenError::is_damage);
    error.map(|error| error.context)
}

fn read(disk: &SimulatedDisk) -> Result<(Replayed, Vec<Arc<Entry>>), OpenError> {
    let mut log = open(disk, Durability::Disk)?;
    let mut entries = Vec::new();
    let replayed = log.replay(EntryId::ZERO, |record, kept| {
        if let Record::Entry(entry) = &record {
            entries.push(entry.clone());
        }
        kept.take(record);
        Ok(())
    })?;
    Ok((replayed, entries))
}

const ACKNOWLEDGED: &str = "/acknowledged";

/// Nothing is known of what was acknowledged, as behind a power cut.
fn forget(disk: &SimulatedDisk) {
    disk.remove(Path::new(ACKNOWLEDGED)).unwrap();
}

impl Writer {
    fn new(durability: Durability) -> Self {
        use crate::storage::disk::SyncSite;
        let disk = SimulatedDisk::new();
        disk.create_folder(Path::new("/log")).unwrap();
        disk.sync_folder(Path::new("/"), SyncSite::DataFolder)
            .unwrap();
        let log = open(&disk, durability).unwrap();
        let mut writer = Writer {
            disk,
            log,
            epoch: 0,
            entries: Vec::new(),
        };
        writer.begin_epoch();
        writer
    }

    fn last(&self) -> EntryId {
        self.entries.last().map_or(EntryId::ZERO, |entry| entry.id)
    }

    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.log.begin(false).unwrap();
    }

    fn batch(&self, sizes: &[usize]) -> Vec<Arc<Entry>> {
        let mut prev = self.last();
        let entries = sizes.iter().map(|size| {
            let entry = entry(self.epoch, prev, *size);
            prev = entry.id;
            Arc::new(entry)
        });
        entries.collect()
    }

    fn append(&mut self, sizes: &[usize]) {
        let batch = self.batch(sizes);
        self.log.append(&records(&batch)).unwrap();
        self.entries.extend(batch);
    }

    fn files(&self) -> Vec<PathBuf> {
        self.disk
            .files()
            .into_iter()
            .filter(|path| path.extension().is_some())
            .collect()
    }
}

/// Three segments of two epochs, marked.
fn written() -> Writer {
    let mut writer = Writer::new(Durability::Disk);
    writer.append(&[10, 20]);
    writer.append(&[300]);
    writer.append(&[5]);
    writer.begin_epoch();
    writer.append(&[1, 2, 3]);
    writer.append(&[50]);
    writer.log.mark().unwrap();
    assert_eq!(writer.files().len(), 3);
    writer
}

#[test]
fn written_records_are_read() {
    let writer = written();
    let (replayed, entries) = read(&writer.disk).unwrap();
    assert_eq!(entries, writer.entries);
    assert_eq!((replayed.last, replayed.torn), (writer.last(), None));
    assert_eq!(replayed.segments, 3);
}

#[test]
fn the_bytes_are_frozen() {
    let mut writer = Writer::new(Durability::Disk);
    writer.append(&[3]);
    writer.log.mark().unwrap();
    let bytes = writer.disk.content(&writer.files()[0]).unwrap();
    assert_eq!(
        bytes.len() as u64,
        SEGMENT_BYTES,
        "the file has its size from the start"
    );
    let hex = |range: std::ops::Range<usize>| -> String {
        let line = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes[range]
            .chunks(16)
            .map(line)
            .collect::<Vec<String>>()
            .join("\n")
    };
    expect![[r#"
        46414445524c4f470200000007000000
        00000000010000000000000000000000
        00000000000000000000000000000000
        000000009001000000000000804076f6"#]]
    .assert_eq(&hex(0..64));
    expect![[r#"
        37e1d1a9120000004000000001020101
        0000000001010100000103036b6b6b"#]]
    .assert_eq(&hex(64..95));
    expect!["b371b93e000000005f00000002"].assert_eq(&hex(95..108));
}

/// A segment of format 1 as it was written, with one entry of format 1, behind it a mark.
#[test]
fn a_log_of_format_1_is_read_and_goes_on() {
    const SEGMENT: &str = "\
        46414445524c4f47010000000700000000000000010000000000000001000000\
        0000000000000000000000000000000000000000900100000000000044fb8f22\
        fee0aec2100000004000000001010101000001010100000103036b6b6b\
        551652f1000000005d00000002";
    let bytes: Vec<u8> = (0..SEGMENT.len() / 2)
        .map(|at| u8::from_str_radix(&SEGMENT[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let mut writer = Writer::new(Durability::Disk);
    let path = writer.files()[0].clone();
    writer.disk.remove(&path).unwrap();
    let mut file = writer.disk.create(&path).unwrap();
    file.set_size(SEGMENT_BYTES).unwrap();
    file.write_all_at(0, &bytes).unwrap();

    let (replayed, entries) = read(&writer.disk).unwrap();
    assert_eq!((replayed.epoch, replayed.torn), (1, None));
    assert_eq!(entries, [Arc::new(entry(1, EntryId::ZERO, 3))]);
    writer.entries = entries;
    writer.log = open(&writer.disk, Durability::Disk).unwrap();
    let replayed = writer.log.replay(EntryId::ZERO, |record, kept| {
        kept.take(record);
        Ok(())
    });
    assert_eq!(replayed.unwrap().last, EntryId::new(1, 1));
    writer.begin_epoch();
    writer.append(&[20, 30]);
    assert_eq!(read(&writer.disk).unwrap().1, writer.entries);
}

/// One record of each kind but the entry.
fn others() -> Vec<Record> {
    let name = RequestId {
        client: (1 << 100).into(),
        seq: 300,
        part: 2,
    };
    let operation = Operation {
        name,
        stamp: Stamp {
            base: EntryId::new(3, 4),
            clock: 1_700_000_000_000,
            node: 2,
            counter: 1,
        },
        accept: EntryId::new(3, 9),
        digest: None,
        key: Bytes::from_static(b"key"),
        ops: vec![ElementOp::Clear {
            group: Bytes::from_static(b"group"),
        }],
    };
    let configuration = Configuration {
        epoch: 4,
        wiring: Wiring::Star,
        members: vec![ChainMember {
            node: NodeId(2),
            incarnation: Incarnation(7),
            disk: DiskId(8),
            role: Role::Serving,
        }],
        last_serving: vec![(NodeId(2), DiskId(8))],
        absent: Vec::new(),
        safe_point: EntryId::new(2, 2),
        lossy: fader_chain::UncleanRecovery::default(),
        version: fader_chain::Version::OLDEST,
    };
    vec![
        Record::Epoch(Arc::new(configuration)),
        Record::Operation(Arc::new(operation)),
        Record::ClockBound(1_700_000_001_000),
        Record::Filled {
            at: EntryId::new(3, 12),
        },
        Record::Cut {
            after: EntryId::new(3, 10),
        },
        Record::Forgotten(vec![RequestId { seq: 299, ..name }]),
    ]
}

#[test]
fn every_kind_of_record_comes_back() {
    for record in others() {
        let mut bytes = Vec::new();
        payload::encode(&record, &mut bytes);
        let kind = payload::kind(&record);
        let bytes = Bytes::from(bytes);
        assert_eq!(payload::decode(kind, bytes.clone()), Ok(record.clone()));
        for size in 0..bytes.len() {
            let cut = payload::decode(kind, bytes.slice(..size));
            assert!(cut.is_err(), "{size} bytes pass for {record:?}");
        }
    }
}

/// It shows WAL-5 and WAL-6.
#[test]
fn a_segment_repeats_what_is_needed_of_those_before() {
    let mut writer = Writer::new(Durability::Disk);
    writer.log.append(&others()).unwrap();
    writer.begin_epoch();
    let kept = writer.log.kept().clone();
    assert_eq!(kept.operations.len(), 1, "another name was forgotten");
    writer.log.remove_through(EntryId::new(9, 99), 0).unwrap();
    assert_eq!(writer.files().len(), 1);
    for seed in 0..20 {
        let mut log = open(&writer.disk.crash(seed), Durability::Disk).unwrap();
        let replayed = log.replay(EntryId::new(3, 12), |record, kept| {
            kept.take(record);
            Ok(())
        });
        assert_eq!(replayed.unwrap().last, EntryId::new(3, 10));
        let found = log.kept();
        assert_eq!(found.configuration, kept.configuration);
        assert_eq!(found.operations, kept.operations);
        assert_eq!(found.clock_bound, kept.clock_bound);
    }
}

/// It shows WAL-2.
#[test]
fn a_segment_whose_beginning_is_not_whole_was_never_used() {
    let mut writer = Writer::new(Durability::Disk);
    writer.log.append(&others()).unwrap();
    let before = writer.log.kept().clone();
    for at in 0..8 {
        let disk = writer.disk.copy();
        let mut log = open(&disk, Durability::Disk).unwrap();
        log.replay(EntryId::ZERO, |record, kept| {
            kept.take(record);
            Ok(())
        })
        .unwrap();
        disk.cut_power_at(disk.operations() + at);
        drop(log.begin(false));
        for seed in 0..50 {
            let disk = disk.crash(seed);
            let mut log = open(&disk, Durability::Disk).unwrap();
            log.replay(EntryId::ZERO, |record, kept| {
                kept.take(record);
                Ok(())
            })
            .unwrap();
            assert_eq!(
                log.kept().operations,
                before.operations,
                "{at}, seed {seed}"
            );
            assert_eq!(log.kept().configuration, before.configuration);
            log.begin(false).unwrap();
        }
    }
}

#[test]
fn a_last_segment_that_is_cut_short_is_damage() {
    let writer = written();
    let last = writer.files().pop().unwrap();
    let size = writer.disk.content(&last).unwrap().len() as u64;
    for size in super::record::HEADER_SIZE as u64 + 1..size {
        let disk = writer.disk.copy();
        let mut file = disk.open(&last).unwrap();
        file.set_size(size).unwrap();
        let Some(message) = damage(&disk) else {
            panic!("{size} bytes pass for all")
        };
        let expected = format!("{}, offset {size}: the file is cut off", last.display());
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn every_flipped_bit_of_a_marked_log_is_located_or_harmless() {
    let writer = written();
    let mut damaged = 0;
    for path in writer.files() {
        for offset in 0..writer.disk.content(&path).unwrap().len() {
            for mask in [0x01, 0x10, 0x80] {
                let disk = writer.disk.copy();
                disk.flip(&path, offset, mask);
                match read(&disk) {
                    Ok((_, entries)) => assert_eq!(entries, writer.entries, "{path:?} {offset}"),
                    Err(error) if error.is_damage() => {
                        let message = error.to_string();
                        assert!(message.contains(path.to_str().unwrap()), "{message}");
                        assert!(message.contains("offset"), "{message}");
                        damaged += 1;
                    }
                    Err(other) => panic!("{path:?} {offset}: {other}"),
                }
            }
        }
    }
    assert!(500 < damaged, "only {damaged} flips did damage");
}

/// It shows WAL-1.
#[test]
fn without_a_mark_only_the_last_write_may_pass_for_cut_short() {
    let mut writer = Writer::new(Durability::Disk);
    writer.append(&[10, 20]);
    writer.append(&[30]);
    let before = writer.entries.clone();
    let path = writer.files()[0].clone();
    writer.append(&[40, 50]);
    let mut cut = 0;
    for offset in 0..SEGMENT_BYTES as usize {
        let disk = writer.disk.copy();
        disk.flip(&path, offset, 0x04);
        let known = read(&disk).map(|(_, entries)| entries == writer.entries);
        assert!(known.unwrap_or(true), "{offset}: it was acknowledged");
        forget(&disk);
        match read(&disk) {
            Ok((_, entries)) if entries == writer.entries => {}
            Ok((replayed, entries)) => {
                assert!(
                    entries.starts_with(&before) && replayed.torn.is_some(),
                    "{offset}"
                );
                cut += 1;
            }
            Err(error) if error.is_damage() => {}
            Err(other) => panic!("{offset}: {other}"),
        }
    }
    assert!(
        100 < cut,
        "only {cut} flips were taken for a write cut short"
    );
}

#[test]
fn a_write_cut_at_any_byte_is_cut_off_and_reported() {
    let mut writer = Writer::new(Durability::Disk);
    writer.append(&[10]);
    let before = writer.entries.clone();
    let path = writer.files()[0].clone();
    let start = (0..SEGMENT_BYTES as usize)
        .rfind(|at| writer.disk.content(&path).unwrap()[*at] != 0)
        .unwrap()
        + 1;
    writer.append(&[20, 30]);
    let whole = writer.disk.content(&path).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for cut in start..end {
        let disk = writer.disk.copy();
        for (offset, byte) in whole.iter().enumerate().take(end).skip(cut) {
            disk.flip(&path, offset, *byte);
        }
        assert!(read(&disk).is_err_and(|error| error.is_damage()), "{cut}");
        forget(&disk);
        let (replayed, entries) = read(&disk).unwrap();
        assert!(entries.starts_with(&before) && entries.len() < writer.entries.len());
        let has_rest = disk.content(&path).unwrap()[start..]
            .iter()
            .any(|byte| *byte != 0);
        let is_cut = entries.len() == before.len() && has_rest;
        if is_cut {
            let torn = replayed.torn.unwrap().words;
            assert!(torn.contains(&format!("offset {start}")), "{torn}");
        }
    }
}

#[test]
fn a_write_that_lost_its_beginning_is_cut_off() {
    let mut writer = Writer::new(Durability::Disk);
    writer.append(&[10]);
    let before = writer.entries.clone();
    let path = writer.files()[0].clone();
    let content = writer.disk.content(&path).unwrap();
    let start = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    writer.append(&[20, 30, 40]);
    let whole = writer.disk.content(&path).unwrap();
    // The page with the first record never reached the medium; later ones of the same write did.
    (start..start + 20).for_each(|offset| writer.disk.flip(&path, offset, whole[offset]));
    assert!(read(&writer.disk).is_err_and(|error| error.is_damage()));
    forget(&writer.disk);
    let (replayed, entries) = read(&writer.disk).unwrap();
    assert_eq!(entries, before);
    assert!(replayed.torn.is_some());
}

/// Zeros where a record says it has content are no write that was cut short, unless what is known
/// to be acknowledged ends before them.
#[test]
fn zeros_in_a_record_are_a_possible_loss() {
    let mut writer = Writer::new(Durability::Disk);
    writer.append(&[10]);
    let earlier = writer.disk.content(Path::new(ACKNOWLEDGED)).unwrap();
    let path = writer.files()[0].clone();
    writer.append(&[200]);
    let whole = writer.disk.content(&path).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (end - 100..end).for_each(|offset| writer.disk.flip(&path, offset, whole[offset]));
    let lost = |disk: &SimulatedDisk| read(disk).unwrap().0.torn.unwrap().lost;
    let disk = writer.disk.copy();
    forget(&disk);
    assert_eq!(lost(&disk), 100);
    let disk = writer.disk.copy();
    let mut file = disk.open(Path::new(ACKNOWLEDGED)).unwrap();
    file.write_all_at(0, &earlier).unwrap();
    assert_eq!(
        lost(&disk),
        0,
        "the write before was the last one that was acknowledged"
    );
}

#[test]
fn a_folder_that_acknowledged_has_a_log() {
    let writer = written();
    for path in writer.files() {
        writer.disk.remove(&path).unwrap();
    }
    let error = read(&writer.disk).unwrap_err().to_string();
    assert!(error.contains("the log is missing"), "{error}");
    // One that cannot be read knows that much, and no more.
    let writer = written();
    writer.disk.flip(Path::new(ACKNOWLEDGED), 20, 1);
    assert_eq!(read(&writer.disk).unwrap().1, writer.entries);
}

#[test]
fn a_missing_segment_is_named() {
    for (missing, reason) in [(0, "00000001.log"), (1, "00000002.log")] {
        use crate::storage::disk::Disk;
        let writer = written();
        writer.disk.remove(&writer.files()[missing]).unwrap();
        let Some(message) = damage(&writer.disk) else {
            panic!("segment {missing} is missed");
        };
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn segments_go_when_nothing_in_them_is_needed() {
    let mut writer = written();
    writer.log.remove_through(EntryId::new(1, 2), 0).unwrap();
    assert_eq!(writer.files().len(), 3, "entry 1.3 is in the first segment");
    writer
        .log
        .remove_through(EntryId::new(1, 3), 10_000)
        .unwrap();
    assert_eq!(writer.files().len(), 3, "10000 bytes are kept");
    writer.log.remove_through(writer.last(), 0).unwrap();
    assert_eq!(writer.files().len(), 1, "the current segment stays");
    let mut log = open(&writer.disk, Durability::Disk).unwrap();
    let mut entries = Vec::new();
    let applied = EntryId::new(1, 4);
    let replayed = log.replay(applied, |record, _| {
        if let Record::Entry(entry) = record {
            entries.push(entry.id.index);
        }
        Ok(())
    });
    assert_eq!(replayed.unwrap().last, writer.last());
    assert_eq!(entries, [5, 6, 7, 8]);
}

/// It shows WAL-4.
#[test]
fn the_rest_of_a_failed_write_is_void_after_the_next_epoch() {
    for fault in [SimulatedDisk::fail_writes, SimulatedDisk::fail_syncs] {
        let mut writer = Writer::new(Durability::Disk);
        writer.append(&[10]);
        fault(&writer.disk, true);
        let failed = writer.batch(&[20, 30]);
        assert!(writer.log.append(&records(&failed)).is_err());
        assert!(
            writer.log.append(&records(&failed)).is_err(),
            "WAL-3: the file is not used again"
        );
        fault(&writer.disk, false);
        let (_, entries) = read(&writer.disk).unwrap();
        assert_eq!(
            entries.len(),
            3,
            "all of the write reached the disk, as it may"
        );
        writer.begin_epoch();
        writer.append(&[40]);
        let (replayed, entries) = read(&writer.disk).unwrap();
        assert_eq!(entries, writer.entries);
        assert_eq!(replayed.torn, None);
    }
}

#[test]
fn relaxed_durability_loses_the_end_only() {
    for seed in 0..200 {
        let mut writer = Writer::new(Durability::Os);
        for size in [10, 20, 30] {
            writer.append(&[size, size]);
        }
        writer.log.sync().unwrap();
        let synced = writer.entries.len();
        for size in [40, 50, 60] {
            writer.append(&[size]);
        }
        let (_, entries) = read(&writer.disk.crash(seed)).unwrap();
        assert!(
            writer.entries.starts_with(&entries) && synced <= entries.len(),
            "seed {seed}"
        );
    }
}

proptest! {
    #[test]
    fn a_crash_keeps_what_was_synced(
        batches in prop::collection::vec(prop::collection::vec(0_usize..120, 1..5), 1..12),
        seed: u64,
    ) {
        let mut writer = Writer::new(Durability::Disk);
        let (last, synced) = batches.split_last().unwrap();
        for batch in synced {
            writer.append(batch);
        }
        let sure = writer.entries.len();
        writer.disk.fail_syncs(true);
        let unsure = writer.batch(last);
        prop_assert!(writer.log.append(&records(&unsure)).is_err());
        writer.entries.extend(unsure);
        let (_, entries) = read(&writer.disk.crash(seed)).unwrap();
        prop_assert!(writer.entries.starts_with(&entries));
        prop_assert!(sure <= entries.len());
    }
}

#[test]
fn an_entry_follows_the_one_before() {
    let at = |index| EntryId::new(1, index);
    let written = |records: &[Record]| {
        let mut writer = Writer::new(Durability::Disk);
        writer.append(&[1, 2]);
        writer.log.append(records).unwrap();
        read(&writer.disk)
    };
    let after = |index| Record::Entry(Arc::new(entry(1, at(index), 3)));
    let cut = |index| Record::Cut { after: at(index) };
    for lacking in [vec![after(3)], vec![after(1)], vec![cut(1), after(2)]] {
        let error = written(&lacking).unwrap_err().to_string();
        assert!(error.contains("does not follow"), "{lacking:?}: {error}");
        assert!(error.contains("Restore the data folder"), "{error}");
    }
    let anew = Record::Cut {
        after: EntryId::ZERO,
    };
    for whole in [
        vec![after(2)],
        vec![cut(1), after(1)],
        vec![anew, after(7), Record::Filled { at: at(9) }, after(9)],
    ] {
        assert!(written(&whole).is_ok(), "{whole:?}");
    }
}

#[test]
fn a_segment_without_entries_is_missed_too() {
    let mut writer = Writer::new(Durability::Disk);
    writer.append(&[1]);
    let old = writer.files();
    writer.log.begin(false).unwrap();
    let named = |path: &PathBuf| !old.contains(path);
    let empty = writer.files().into_iter().find(named).unwrap();
    writer.log.begin(false).unwrap();
    writer.append(&[2]);
    writer.disk.remove(&empty).unwrap();
    let error = read(&writer.disk).unwrap_err().to_string();
    assert!(error.contains("the segment is missing"), "{error}");
}

/// The log as a start finds it, resumed.
fn restarted(disk: &SimulatedDisk) -> Log {
    let mut log = open(disk, Durability::Disk).unwrap();
    let replayed = log.replay(EntryId::ZERO, |record, kept| {
        kept.take(record);
        Ok(())
    });
    replayed.unwrap();
    log.resume().unwrap();
    log
}

#[test]
fn a_start_goes_on_with_a_segment_that_ends_in_zeros() {
    let mut writer = written();
    for _ in 0..3 {
        writer.log = restarted(&writer.disk);
        writer.append(&[4]);
    }
    assert_eq!(writer.files().len(), 3);
    assert_eq!(read(&writer.disk).unwrap().1, writer.entries);
}

#[test]
fn a_start_behind_a_torn_write_begins_a_segment() {
    let mut writer = written();
    let last = writer.files().into_iter().max().unwrap();
    let end = writer.log.segments.back().unwrap().size;
    let mut file = writer.disk.open(&last).unwrap();
    file.write_all_at(end + 40, &[7]).unwrap();
    file.sync(crate::storage::disk::SyncSite::Entries).unwrap();
    assert!(read(&writer.disk).unwrap().0.torn.is_some());
    writer.log = restarted(&writer.disk);
    writer.append(&[4]);
    assert_eq!(writer.files().len(), 4);
    let (replayed, entries) = read(&writer.disk).unwrap();
    assert_eq!((replayed.torn, entries), (None, writer.entries));
}

/// What records say, with bytes changed, cut off and added: it is read or refused, and what is read
/// comes back from its own bytes.
#[test]
fn fuzz_log_records() {
    let mut whole = others();
    let mut named = entry(3, EntryId::new(3, 8), 20);
    named.request = Some(
        RequestId {
            client: 7_u128.into(),
            seq: 300,
            part: 2,
        }
        .owned_by(12),
    );
    whole.push(Record::Entry(Arc::new(named)));
    whole.push(Record::Entry(Arc::new(entry(1, EntryId::ZERO, 5))));
    let seeds = whole.iter().map(|record| {
        let mut bytes = vec![payload::kind(record)];
        payload::encode(record, &mut bytes);
        bytes
    });
    let seeds: Vec<Vec<u8>> = seeds.collect();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    let corpus = fader_fuzz::Corpus {
        seeds: &seeds,
        words: &[&[0xff; 9]],
    };
    let mut read = 0;
    fader_fuzz::run("log-records", &corpus, |input| {
        let Some((kind, bytes)) = input.split_first() else {
            return;
        };
        let Ok(found) = payload::decode(*kind, Bytes::copy_from_slice(bytes)) else {
            return;
        };
        let mut again = Vec::new();
        payload::encode(&found, &mut again);
        let back = payload::decode(payload::kind(&found), Bytes::from(again));
        assert_eq!(back, Ok(found));
        read += 1;
    });
    assert!(seeds.len() < read, "no mutation is read");
}
