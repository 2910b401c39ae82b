//! Merging of tables: which are written anew, and which leave the medium.

use lsm_tree::AbstractTree;

use super::*;

fn await_merges(engine: &LsmEngine) {
    let mut state = engine.core.state.lock();
    while state.writing.is_some() || state.is_merge_due || state.is_merging {
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
