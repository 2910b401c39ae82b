//! The engine on a real folder: what it keeps, what it forgets, what damage does to it.

mod merging;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fader_chain::{EntryId, RangeContent};
use fader_services::{CollectionId, Direction, KeyBuilder, Table, View};

use super::{LsmEngine, files};
use crate::storage::engine::{Engine, Mutations, Tree, pairs};
use crate::support::MemoryEngine;
use crate::support::SimulatedDisk;

const TABLES: [Table; 4] = [
    Table::AttributeCount,
    Table::Items,
    Table::Metadata,
    Table::Index,
];

fn key(table: Table, number: u32) -> Bytes {
    KeyBuilder::new(CollectionId(7), table)
        .raw(&number.to_be_bytes())
        .build()
}

fn puts(numbers: std::ops::Range<u32>, value: &str) -> Mutations {
    let pairs = numbers.flat_map(|number| {
        TABLES.map(|table| {
            (
                key(table, number),
                Some(Bytes::from(format!("{value}{number}"))),
            )
        })
    });
    pairs.collect()
}

fn removals(numbers: std::ops::Range<u32>) -> Mutations {
    numbers
        .flat_map(|number| TABLES.map(|table| (key(table, number), None)))
        .collect()
}

fn all(view: &dyn View, direction: Direction) -> Result<Vec<(Bytes, Bytes)>, String> {
    let (start, end) = (7_u64.to_be_bytes(), 8_u64.to_be_bytes());
    let pairs = view
        .scan(&start, &end, direction)
        .collect::<Result<Vec<_>, _>>();
    pairs.map_err(|error| error.to_string())
}

fn id(index: u64) -> EntryId {
    EntryId::new(1, index)
}

fn open(folder: &Path) -> Result<LsmEngine, String> {
    LsmEngine::open(folder, 1 << 20).map_err(|error| error.to_string())
}

#[test]
fn it_is_the_map_that_the_model_is() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let model = MemoryEngine::new(SimulatedDisk::new());
    let steps = [
        puts(0..50, "a"),
        removals(10..20),
        puts(15..60, "b"),
        removals(0..5),
    ];
    for (index, mutations) in steps.iter().enumerate() {
        for engine in [&engine as &dyn Engine, &model] {
            engine
                .commit(&pairs(mutations), id(index as u64 + 1))
                .unwrap();
            engine.checkpoint().unwrap();
        }
        let (view, expected) = (engine.snapshot(), model.snapshot());
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(all(&*view, direction), all(&*expected, direction));
        }
        for number in 0..60 {
            for table in TABLES {
                let key = key(table, number);
                assert_eq!(view.get(&key), expected.get(&key));
            }
        }
        for (start, end) in [(3, 17), (17, 3), (59, 100)] {
            let (start, end) = (key(Table::Items, start), key(Table::Items, end));
            let scan = |view: &dyn View| view.scan(&start, &end, Direction::Backward).count();
            assert_eq!(scan(&*view), scan(&*expected));
        }
    }
}

/// It shows ENGINE-2.
#[test]
fn a_snapshot_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.commit(&pairs(&puts(0..20, "old")), id(1)).unwrap();
    let snapshot = engine.snapshot();
    let before = all(&*snapshot, Direction::Forward).unwrap();
    assert_eq!(before.len(), 80);
    for index in 2..12 {
        engine.commit(&pairs(&removals(0..10)), id(index)).unwrap();
        engine
            .commit(&pairs(&puts(5..40, "new")), id(index))
            .unwrap();
        engine.checkpoint().unwrap();
        assert_eq!(all(&*snapshot, Direction::Forward).unwrap(), before);
    }
}

/// It shows ROWS-1.
#[test]
fn repeated_reads_are_of_their_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let mut snapshots = Vec::new();
    for index in 1..12 {
        let mutations = match index % 3 {
            0 => removals(0..5),
            _ => puts(0..10, &format!("{index}-")),
        };
        engine.commit(&pairs(&mutations), id(index)).unwrap();
        snapshots.push(engine.snapshot());
        // Newest first, oldest first: an earlier reader must not matter.
        for round in 0..2 {
            for snapshot in snapshots.iter().rev() {
                check_gets(&**snapshot);
            }
            if round == 0 {
                engine.checkpoint().unwrap();
            }
            for snapshot in &snapshots {
                check_gets(&**snapshot);
            }
        }
    }
}

#[test]
fn counters_that_were_read_are_kept_and_registers_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.commit(&pairs(&puts(0..10, "value")), id(1)).unwrap();
    let snapshot = engine.snapshot();
    check_gets(&*snapshot);
    for table in TABLES {
        let key = key(table, 3);
        let kept = engine.core.recent.get(&key, lsm_tree::SeqNo::MAX);
        let is_counter = Tree::of(&key) == Tree::Counters;
        assert_eq!(kept, is_counter.then(|| snapshot.get(&key).unwrap()));
    }
}

/// It shows ROWS-2.
#[test]
fn reads_beside_commits_are_of_their_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = || {
            let mut reads = 0;
            while !is_over.load(Ordering::Relaxed) {
                check_gets(&*engine.snapshot());
                reads += 1;
            }
            reads
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        for index in 1..2_000 {
            let mutations = match index % 3 {
                0 => removals(0..3),
                _ => puts(0..3, &format!("{index}-")),
            };
            engine.commit(&pairs(&mutations), id(index)).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(0 < reader.join().unwrap());
        }
    });
}

/// A scan of the same snapshot says what is to be read.
#[track_caller]
fn check_gets(view: &dyn View) {
    let pairs = all(view, Direction::Forward).unwrap();
    let pairs: BTreeMap<Bytes, Bytes> = pairs.into_iter().collect();
    for number in 0..10 {
        for table in TABLES {
            let key = key(table, number);
            assert_eq!(view.get(&key).unwrap(), pairs.get(&key).cloned(), "{key:?}");
        }
    }
}

#[test]
fn a_checkpoint_is_kept_and_the_rest_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.commit(&pairs(&puts(0..10, "kept")), id(3)).unwrap();
    assert_eq!(engine.durable(), Ok(EntryId::ZERO));
    engine.checkpoint().unwrap();
    engine
        .commit(&pairs(&puts(10..20, "forgotten")), id(4))
        .unwrap();
    engine.close();
    assert_eq!(engine.durable(), Ok(id(3)));
    drop(engine);

    let engine = open(folder.path()).unwrap();
    assert!(Tree::ALL.iter().all(|tree| engine.applied(*tree) == id(3)));
    assert_eq!(
        all(&*engine.snapshot(), Direction::Forward).unwrap().len(),
        40
    );
    engine
        .commit(&pairs(&puts(10..20, "again")), id(4))
        .unwrap();
    assert_eq!(
        all(&*engine.snapshot(), Direction::Forward).unwrap().len(),
        80
    );
}

/// The files of a folder, by their path in it.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = PathBuf::from(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            let inside = files(&entry.path());
            found.extend(
                inside
                    .into_iter()
                    .map(|(path, bytes)| (name.join(path), bytes)),
            );
        } else {
            found.push((name, std::fs::read(entry.path()).unwrap()));
        }
    }
    found
}

fn write_files(folder: &Path, files: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// Everything, by scans and by keys.
fn read_all(engine: &LsmEngine) -> Result<Vec<(Bytes, Bytes)>, String> {
    let view = engine.snapshot();
    for number in 0..10 {
        for table in TABLES {
            let value = view
                .get(&key(table, number))
                .map_err(|error| error.to_string())?;
            assert_eq!(value, Some(Bytes::from(format!("value{number}"))));
        }
    }
    all(&*view, Direction::Forward)
}

#[test]
fn a_flipped_byte_is_an_error_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.commit(&pairs(&puts(0..10, "value")), id(1)).unwrap();
    engine.checkpoint().unwrap();
    engine.close();
    let expected = all(&*engine.snapshot(), Direction::Forward).unwrap();
    drop(engine);

    let whole = files(folder.path());
    let mut found = 0;
    for at in 0..whole.len() {
        for offset in (0..whole[at].1.len()).step_by(11) {
            let mut flipped = whole.clone();
            flipped[at].1[offset] ^= 1 << (offset % 8);
            let folder = tempfile::tempdir().unwrap();
            write_files(folder.path(), &flipped);
            match open(folder.path()).and_then(|engine| read_all(&engine)) {
                Ok(pairs) => assert_eq!(pairs, expected, "{} {offset}", whole[at].0.display()),
                Err(_) => found += 1,
            }
        }
    }
    assert!(100 < found, "only {found} flips were found");
}

#[test]
fn a_table_that_a_crash_cut_short_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.commit(&pairs(&puts(0..10, "value")), id(1)).unwrap();
    engine.checkpoint().unwrap();
    engine.close();
    drop(engine);
    let orphan = folder.path().join("index/tables/99");
    std::fs::write(&orphan, b"SFA!").unwrap();
    assert_eq!(read_all(&open(folder.path()).unwrap()).unwrap().len(), 40);
    assert!(!orphan.exists());
}

#[test]
fn no_other_user_can_read_it_in_any_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let engine = folder.path().join("engine");
    open(&engine).unwrap();
    let mode = std::fs::metadata(&engine).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// The rows of items, in a range of their own, as a part of a fill brings them.
fn part(numbers: std::ops::Range<u32>) -> RangeContent {
    let (start, end) = (numbers.start, numbers.end);
    let row = |number| (key(Table::Items, number), Bytes::from("filled"));
    RangeContent {
        start: key(Table::Items, start),
        end: key(Table::Items, end),
        rows: numbers.map(row).collect(),
    }
}

#[test]
fn a_fill_that_was_cut_short_is_known_in_every_life_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = open(folder.path()).unwrap();
    engine.commit(&pairs(&puts(0..1, "old")), id(1)).unwrap();
    engine.begin_fill().unwrap();
    for number in 0..3 {
        engine.fill(&part(number..number + 1)).unwrap();
        engine.checkpoint().unwrap();
        engine.close();
        drop(engine);
        engine = open(folder.path()).unwrap();
        assert!(engine.is_filling());
    }
    engine.end_fill(id(7)).unwrap();
    engine.close();
    drop(engine);
    let engine = open(folder.path()).unwrap();
    assert!(!engine.is_filling());
    for tree in Tree::ALL {
        assert_eq!(engine.applied(tree), id(7));
    }
    let filled = Some(Bytes::from("filled"));
    assert_eq!(engine.snapshot().get(&key(Table::Items, 2)), Ok(filled));
}

#[test]
fn a_scan_that_stays_in_one_table_looks_at_no_other_tree() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let count = 1_000;
    engine
        .commit(&pairs(&puts(0..count, "value")), id(1))
        .unwrap();
    engine.checkpoint().unwrap();
    engine.close();
    drop(engine);
    let index = folder.path().join(Tree::Index.name()).join("tables/0");
    let mut bytes = std::fs::read(&index).unwrap();
    // In its first block; the marker is in the last.
    bytes[40] ^= 1;
    std::fs::write(&index, bytes).unwrap();

    let engine = open(folder.path()).unwrap();
    let snapshot = engine.snapshot();
    let (start, end) = (key(Table::Items, 3), 8_u64.to_be_bytes());
    let mut scan = snapshot.scan(&start, &end, Direction::Forward);
    for number in 3..count {
        assert_eq!(scan.next().unwrap().unwrap().0, key(Table::Items, number));
    }
    let later = scan.collect::<Vec<_>>();
    assert!(later.iter().any(Result::is_err), "{later:?}");
}

#[test]
fn counters_in_a_snapshot_are_not_looked_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let items = (1_000..40_000).map(|number| (key(Table::Items, number), Some(vec![7; 60].into())));
    let rows: Mutations = puts(0..1_000, "value").into_iter().chain(items).collect();
    engine.commit(&pairs(&rows), id(1)).unwrap();
    engine.checkpoint().unwrap();
    engine.close();
    drop(engine);

    let engine = open(folder.path()).unwrap();
    let snapshot = engine.snapshot();
    snapshot.keep();
    let before = all(&*snapshot, Direction::Forward).unwrap();
    assert_eq!(
        before,
        all(&*engine.snapshot(), Direction::Forward).unwrap()
    );
    engine
        .commit(&pairs(&puts(0..1_000, "newer")), id(2))
        .unwrap();
    // By now the cache holds items, and no counters.
    let counters = folder.path().join(Tree::Counters.name()).join("tables/0");
    let mut bytes = std::fs::read(&counters).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&counters, bytes).unwrap();
    assert_eq!(all(&*snapshot, Direction::Forward).unwrap(), before);
    let backward = all(&*snapshot, Direction::Backward).unwrap();
    assert!(backward.iter().eq(before.iter().rev()));
    let later = engine.snapshot();
    all(&*later, Direction::Forward).unwrap_err();
}

/// Lists and tables with bytes changed, cut off and added: they are read or refused, and what is
/// read is no more than there was.
#[test]
fn fuzz_engine_files() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.commit(&pairs(&puts(0..40, "a")), id(40)).unwrap();
    engine.checkpoint().unwrap();
    engine.close();
    drop(engine);
    let tree = folder.path().join("registers");
    let is_list = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with('v');
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&tree)
        .unwrap()
        .chain(std::fs::read_dir(tree.join("tables")).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    let whole = paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect::<Vec<_>>();
    assert!(paths.iter().any(is_list) && 3 <= paths.len(), "{paths:?}");
    // The first byte says which file has the others.
    let seeds = (0_u8..).zip(&whole).map(|(at, bytes)| {
        let mut seed = vec![at];
        seed.extend(bytes);
        seed
    });
    let seeds: Vec<Vec<u8>> = seeds.collect();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    let corpus = fader_fuzz::Corpus {
        seeds: &seeds,
        words: &[&[0xff; 9]],
    };
    fader_fuzz::run("engine-files", &corpus, |input| {
        let Some((first, bytes)) = input.split_first() else {
            return;
        };
        let at = usize::from(*first) % paths.len();
        let is_changed = bytes != whole[at];
        std::fs::write(&paths[at], bytes).unwrap();
        let mut unverified = u64::MAX;
        let found = files::check(&tree, &mut unverified);
        let name = paths[at].display();
        match found {
            Ok(damage) if damage.is_empty() => {
                let is_used = std::fs::read(tree.join("current")).unwrap();
                let is_list = is_list(&paths[at]) && is_used == whole[0];
                assert!(!is_changed || is_list, "{name} passes");
            }
            Ok(damage) => assert!(damage[0].contains(&name.to_string()), "{damage:?}"),
            Err(words) => assert!(words.contains(tree.to_str().unwrap()), "{words}"),
        }
        std::fs::write(&paths[at], &whole[at]).unwrap();
    });
}

#[test]
fn rows_that_share_a_buffer_are_each_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    // Some fit one buffer together, some none.
    let sizes = [
        0,
        1,
        1 << 10,
        super::SHARED_BYTES,
        super::SHARED_BYTES + 1,
        7,
    ];
    let rows = sizes.iter().enumerate().map(|(at, size)| {
        let number = u32::try_from(at).unwrap();
        let value = vec![b'a' + u8::try_from(at).unwrap(); *size];
        (key(Table::Items, number), Some(Bytes::from(value)))
    });
    let rows: Mutations = rows.collect();
    engine.commit(&pairs(&rows), id(1)).unwrap();
    let view = engine.snapshot();
    for (key, value) in &rows {
        assert_eq!(view.get(key).unwrap(), *value);
    }
}
