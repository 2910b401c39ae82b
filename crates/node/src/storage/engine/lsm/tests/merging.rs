//! Merging of tables: which are written anew, and which leave the medium.

use lsm_tree::AbstractTree;

use super::*;
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::engine::lsm::UNMERGED_MAX;

/// Waits until nothing is to be written or merged, or something stands in the way.
fn await_merges(engine: &LsmEngine) {
    let mut state = engine.core.state.lock();
    while state.error().is_none()
        && (state.writing.is_some() || state.is_merge_due || state.is_merging)
    {
        let wait = std::time::Duration::from_millis(1);
        engine.core.changed.wait_for(&mut state, wait);
    }
}

/// Each table that is written has a number of its own: one that is merged has a new one.
fn tables_written(folder: &Path, tree: Tree) -> u64 {
    let tables = files(&folder.join(tree.name()).join("tables"));
    let numbers = tables.iter().map(|(path, _)| path.to_str().unwrap());
    1 + numbers
        .map(|number| number.parse::<u64>().unwrap())
        .max()
        .unwrap()
}

#[test]
fn an_ordered_transfer_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.begin_fill().unwrap();
    for number in 0..20 {
        await_merges(&engine);
        engine.fill(&part(number..number + 1)).unwrap();
        engine.checkpoint().unwrap();
    }
    await_merges(&engine);
    // One that says that it is being filled, and one for each checkpoint.
    assert_eq!(tables_written(folder.path(), Tree::Registers), 21);
    assert_eq!(tables_written(folder.path(), Tree::Index), 1);
}

#[test]
fn values_that_no_snapshot_looks_for_are_merged_away() {
    let written = |keeps: bool| {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path()).unwrap();
        engine.commit(&pairs(&puts(0..10, "first")), id(1)).unwrap();
        let snapshot = engine.snapshot();
        if keeps {
            snapshot.keep();
        }
        let before = all(&*snapshot, Direction::Forward).unwrap();
        for index in 2..1_002 {
            let value = Some(Bytes::from(vec![index as u8; 1_000]));
            let mutations = Mutations::from([(key(Table::Metadata, 3), value)]);
            engine.commit(&pairs(&mutations), id(index)).unwrap();
            if index % 100 == 0 {
                engine.checkpoint().unwrap();
            }
        }
        assert_eq!(all(&*snapshot, Direction::Forward).unwrap(), before);
        check_gets(&*snapshot);
        engine.close();
        check_gets(&*snapshot);
        engine.disk_bytes()
    };
    let (kept, looked_for) = (written(true), written(false));
    assert!(10 * kept < looked_for, "{kept} and {looked_for} bytes");
}

/// No commit comes after the merge.
#[test]
fn merged_tables_are_deleted_when_no_snapshot_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let mut snapshot = None;
    for index in 1..8 {
        let rows = puts(0..100, &index.to_string().repeat(100));
        engine.commit(&pairs(&rows), id(index)).unwrap();
        snapshot.get_or_insert_with(|| engine.snapshot());
        engine.checkpoint().unwrap();
        await_merges(&engine);
    }
    let tree = &engine.core.trees[&Tree::Registers];
    let tables = || files(&folder.path().join("registers/tables")).len();
    let alive = || tree.current_version().table_count();
    assert!(alive() < 4 && alive() < tables());
    assert!(!engine.core.state.lock().replaced.is_empty());
    drop(snapshot);
    while alive() < tables() {
        std::thread::yield_now();
    }
    assert_eq!(
        all(&*engine.snapshot(), Direction::Forward).unwrap().len(),
        100 * TABLES.len()
    );
}

/// Bytes of the tables' files.
fn file_bytes(folder: &Path) -> usize {
    let of = |tree: Tree| files(&folder.join(tree.name()).join("tables"));
    let all = Tree::ALL.into_iter().flat_map(of);
    all.map(|(_, bytes)| bytes.len()).sum()
}

/// Neither rows nor removals come to the last level by themselves. Removals that lie everywhere are
/// cut: no part may have all rows.
#[test]
fn removed_rows_leave_a_medium_with_little_room() {
    const ROWS: u32 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let rows = puts(0..ROWS, &"row".repeat(100));
    engine.commit(&pairs(&rows), id(1)).unwrap();
    let reclaim = |free: u64| {
        engine.reclaim(free).unwrap();
        await_merges(&engine);
        file_bytes(folder.path())
    };
    let before = reclaim(12 << 20);
    let remove = |from: u32, at: u64| {
        let numbers = (from..ROWS).step_by(2);
        let removed = numbers.map(|number| removals(number..number + 1));
        let removed: Mutations = removed.flatten().collect();
        engine.commit(&pairs(&removed), id(at)).unwrap();
    };
    remove(0, 2);
    let half = reclaim(3 << 20);
    assert!(half < before * 6 / 10, "{half} of {before} bytes");
    let left = all(&*engine.snapshot(), Direction::Forward).unwrap();
    assert_eq!(left.len(), ROWS as usize / 2 * TABLES.len());
    // Nothing is merged twice.
    assert_eq!(reclaim(3 << 20), half);
    remove(1, 3);
    assert!(reclaim(3 << 20) < before / 100);
}

/// Removals are cut so finely that those of one table lie among few rows.
#[test]
fn rows_removed_in_many_places_leave_a_medium_with_little_room() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let key = |number: u32| {
        let digits = xxhash_rust::xxh3::xxh3_128(&number.to_be_bytes()).to_be_bytes();
        let key = KeyBuilder::new(CollectionId(7), Table::Items).raw(&number.to_be_bytes());
        key.raw(&digits.repeat(3)).build()
    };
    let reclaim = |free: u64| {
        engine.reclaim(free).unwrap();
        await_merges(&engine);
        file_bytes(folder.path())
    };
    for at in 0..3 {
        let value = Bytes::from(vec![7; 64 << 10]);
        let numbers = at * 240..(at + 1) * 240;
        let rows = numbers
            .map(|number| (key(number), Some(value.clone())))
            .collect();
        engine.commit(&pairs(&rows), id(u64::from(at) + 1)).unwrap();
        reclaim(32 << 20);
    }
    let before = reclaim(32 << 20);
    let removed = (0..720).step_by(4).map(|number| (key(number), None));
    engine.commit(&pairs(&removed.collect()), id(4)).unwrap();
    let after = reclaim(32 << 20);
    assert!(after < before * 9 / 10, "{after} of {before} bytes");
}

/// It is not tried again and again.
#[test]
fn a_damaged_table_is_merged_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let written = |engine: &LsmEngine, indexes: std::ops::Range<u64>| {
        for index in indexes {
            engine
                .commit(&pairs(&puts(0..100, &"row".repeat(30))), id(index))
                .unwrap();
            engine.checkpoint().unwrap();
        }
    };
    let engine = open(folder.path()).unwrap();
    written(&engine, 1..4);
    engine.close();
    drop(engine);
    let tables = folder.path().join("registers/tables");
    for (name, mut bytes) in files(&tables) {
        bytes[10] ^= 1;
        std::fs::write(tables.join(name), bytes).unwrap();
    }
    let engine = open(folder.path()).unwrap();
    engine.tolerate_damage();
    written(&engine, 4..6);
    let mut state = engine.core.state.lock();
    while !state.is_unmergeable {
        engine
            .core
            .changed
            .wait_for(&mut state, std::time::Duration::from_millis(1));
    }
    assert!(!state.is_merge_due && !state.is_merging);
}

/// A test that is run again where it finds a small disk has its folder here.
const SMALL_DISK: &str = "FADER_TEST_SMALL_DISK";

/// Runs the test of that name on a disk of its own, which ends with it.
fn on_a_small_disk(name: &str, bytes: u64, run: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(SMALL_DISK) {
        return run(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let unshared = |command: &[&str]| {
        let mut unshare = std::process::Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        let mount = "mount -t tmpfs -o size=$1 none $2 && shift 2 && exec \"$@\"";
        unshare.args(["--mount", "sh", "-c", mount, "sh"]);
        unshare.arg(bytes.to_string()).arg(folder.path());
        unshare.args(command).env(SMALL_DISK, folder.path());
        unshare.status().is_ok_and(|status| status.success())
    };
    if !unshared(&["true"]) {
        assert!(std::env::var_os("CI").is_none(), "no namespaces here");
        return eprintln!("skipped: no namespaces here");
    }
    let program = std::env::current_exe().unwrap();
    let path = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
    assert!(unshared(&[
        program.to_str().unwrap(),
        "--exact",
        &path,
        "--nocapture"
    ]));
}

fn bytes_free(folder: &Path) -> u64 {
    RealDisk.bytes_free(folder).unwrap()
}

/// Leaves so many bytes, until the file is removed.
fn leave(folder: &Path, bytes: u64) -> PathBuf {
    let path = folder.join("all else");
    let rest = usize::try_from(bytes_free(folder) - bytes).unwrap();
    std::fs::write(&path, vec![1; rest]).unwrap();
    path
}

/// The log took the room after it was looked how much there is.
#[test]
fn a_merge_that_finds_no_room_stops_nothing_and_leaves_nothing() {
    const ROWS: u32 = 3_000;
    let name = "a_merge_that_finds_no_room_stops_nothing_and_leaves_nothing";
    on_a_small_disk(name, 24 << 20, |disk| {
        let engine = open(&disk.join("engine")).unwrap();
        let reclaim = |free: u64| {
            engine.reclaim(free).unwrap();
            await_merges(&engine);
        };
        for (at, value) in [(1, "old"), (2, "new")] {
            let rows = puts(0..ROWS, &value.repeat(100));
            engine.commit(&pairs(&rows), id(at)).unwrap();
            match at {
                1 => reclaim(24 << 20),
                _ => engine.checkpoint_and_wait().unwrap(),
            }
        }
        let before = all(&*engine.snapshot(), Direction::Forward).unwrap();
        let rest = leave(disk, 1 << 20);
        reclaim(24 << 20);
        assert!(1 << 19 < bytes_free(disk), "{} bytes", bytes_free(disk));
        engine.durable().unwrap();
        engine.commit(&pairs(&removals(0..1)), id(3)).unwrap();
        engine.checkpoint_and_wait().unwrap();
        std::fs::remove_file(rest).unwrap();
        let free = bytes_free(disk);
        reclaim(24 << 20);
        assert!(free + (3 << 20) < bytes_free(disk), "{free} bytes");
        let after = all(&*engine.snapshot(), Direction::Forward).unwrap();
        let is_left = |(key, _): &&(Bytes, Bytes)| !TABLES.map(|it| self::key(it, 0)).contains(key);
        assert!(before.iter().filter(is_left).eq(&after));
    });
}

/// The tree deletes them with a list that is new, for which there is no room.
#[test]
fn merged_tables_leave_a_disk_that_is_full() {
    let name = "merged_tables_leave_a_disk_that_is_full";
    on_a_small_disk(name, 24 << 20, |disk| {
        let engine = open(&disk.join("engine")).unwrap();
        let mut snapshot = None;
        for (at, value) in [(1, "old"), (2, "new")] {
            let rows = puts(0..3_000, &value.repeat(100));
            engine.commit(&pairs(&rows), id(at)).unwrap();
            engine.reclaim(24 << 20).unwrap();
            await_merges(&engine);
            snapshot.get_or_insert_with(|| engine.snapshot());
        }
        assert!(!engine.core.state.lock().replaced.is_empty());
        leave(disk, 0);
        drop(snapshot);
        while bytes_free(disk) < 2 << 20 {
            std::thread::yield_now();
        }
        engine.durable().unwrap();
        let rows = all(&*engine.snapshot(), Direction::Forward).unwrap();
        assert!(rows.iter().all(|(_, value)| value.starts_with(b"new")));
    });
}

#[test]
fn a_checkpoint_that_finds_no_room_leaves_nothing() {
    let name = "a_checkpoint_that_finds_no_room_leaves_nothing";
    on_a_small_disk(name, 16 << 20, |disk| {
        let engine = open(&disk.join("engine")).unwrap();
        let rest = leave(disk, 1 << 19);
        let rows = puts(0..3_000, &"row".repeat(100));
        engine.commit(&pairs(&rows), id(1)).unwrap();
        assert!(engine.checkpoint_and_wait().unwrap_err().is_full);
        while bytes_free(disk) < 1 << 18 {
            std::thread::yield_now();
        }
        assert!(engine.durable().is_err());
        std::fs::remove_file(rest).unwrap();
        while engine.durable() != Ok(id(1)) {
            std::thread::yield_now();
        }
        let listed = engine.core.trees.values().map(|it| it.table_count());
        let tables = |tree: Tree| files(&disk.join("engine").join(tree.name()).join("tables"));
        let there: usize = Tree::ALL.map(|tree| tables(tree).len()).iter().sum();
        assert_eq!(there, listed.sum::<usize>());
    });
}

/// What is in level 0 is removed, too.
#[test]
fn level_0_is_merged_where_what_is_left_of_it_has_room() {
    const ROWS: u32 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    let write = |rows: Mutations, at: u64| {
        engine.commit(&pairs(&rows), id(at)).unwrap();
    };
    write(puts(0..ROWS / 2, &"row".repeat(100)), 1);
    engine.reclaim(64 << 20).unwrap();
    await_merges(&engine);
    engine.end_reclaim();
    write(puts(ROWS / 2..ROWS, &"row".repeat(100)), 2);
    engine.checkpoint_and_wait().unwrap();
    let before = file_bytes(folder.path());
    write(removals(0..ROWS), 3);
    engine.reclaim(3 << 20).unwrap();
    await_merges(&engine);
    let after = file_bytes(folder.path());
    assert!(after < before / 100, "{after} of {before} bytes");
}

/// Its rows are not removed: it waits for room.
#[test]
fn level_0_has_few_tables_while_it_waits_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.reclaim(1 << 18).unwrap();
    let rows = puts(0..2_000, &"row".repeat(100));
    engine.commit(&pairs(&rows), id(1)).unwrap();
    engine.checkpoint_and_wait().unwrap();
    for index in 2..20 {
        let row = puts(0..1, &index.to_string());
        engine.commit(&pairs(&row), id(index)).unwrap();
        engine.reclaim(1 << 18).unwrap();
        await_merges(&engine);
    }
    let runs = |engine: &LsmEngine| engine.core.trees[&Tree::Registers].l0_run_count();
    assert!(
        (2..=UNMERGED_MAX + 1).contains(&runs(&engine)),
        "{}",
        runs(&engine)
    );
    engine.reclaim(64 << 20).unwrap();
    await_merges(&engine);
    assert_eq!(runs(&engine), 0);
    assert_eq!(
        engine
            .snapshot()
            .get(&key(Table::Items, 0))
            .unwrap()
            .unwrap(),
        "190"
    );
}
