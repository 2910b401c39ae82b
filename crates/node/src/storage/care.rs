//! What an operator asks of a data folder that no process has. That is whether it is whole, and to
//! go on with what is left of its log.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fader_chain::{Change, EntryId, Record, ViewError};
use fader_services::blocks;

use crate::status::OpenError;
use crate::storage::blocks::{BlockId, BlockSettings, Blocks, Scrub};
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::engine::{Engine, LsmEngine, Tree};
use crate::storage::log::{Durability, Log};

/// Rows of blocks that are looked at at once.
const PAGE: usize = 1024;

/// What was found in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is damaged, each with its file, and the offset where there is one.
    pub damage: Vec<String>,
    /// What a crash left and a start cuts off.
    pub notes: Vec<String>,
    /// Whether the engine can be made anew, as the log has everything.
    pub can_rebuild: bool,
    /// Where the log is damaged: what follows would be lost.
    pub cut: Option<(PathBuf, u64)>,
    /// Bytes of objects that are damaged or missing, each block with its place where it has one: no
    /// repair has them.
    pub lost: Vec<String>,
}

/// Reads all of the log and the engine of a member's folder. The caller has the folder's lock.
pub(crate) fn check(data: &Path, cache_bytes: u64) -> Result<Findings, OpenError> {
    let mut findings = Findings::default();
    let mut named = Named::new();
    let last = check_log(data, &mut findings, &mut named)?;
    if !data.join("engine").is_dir() {
        return Ok(findings);
    }
    let engine = match LsmEngine::open(&data.join("engine"), cache_bytes) {
        Ok(engine) => engine,
        Err(error) if error.is_damage() => {
            findings.damage.push(error.context);
            return Ok(findings);
        }
        Err(error) => return Err(error),
    };
    findings.damage.extend_from_slice(engine.damage());
    let newest = Tree::ALL.map(|tree| engine.applied(tree)).into_iter().max();
    if let Some((last, newest)) = last.zip(newest)
        && last < newest
    {
        findings.damage.push(format!(
            "the log ends at entry {last}, but the engine holds entries up to {newest}"
        ));
    }
    if last.is_some() {
        check_blocks(data, &engine, &named, &mut findings)?;
    }
    Ok(findings)
}

/// The blocks whose rows the log puts or removes, and whether the last of it is a put.
type Named = BTreeMap<u128, bool>;

fn note_blocks(record: &Record, named: &mut Named) {
    let Record::Entry(entry) = record else {
        return;
    };
    for change in &entry.changes {
        match change {
            Change::Remove { key } => {
                named.extend(blocks::block_of(key).map(|id| (id, false)));
            }
            _ => named.extend(blocks::new_row(change).map(|id| (id, true))),
        }
    }
}

/// Reads all blocks, and looks whether each has its bytes that the engine and the log name.
fn check_blocks(
    data: &Path,
    engine: &LsmEngine,
    named: &Named,
    findings: &mut Findings,
) -> Result<(), OpenError> {
    let unreadable = |error: ViewError| OpenError::damaged(error.to_string());
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut missing: Vec<u128> = Vec::new();
    let store = match data.join("blocks").is_dir() {
        true => Some(Blocks::open(
            data,
            BlockSettings::default(),
            &disk,
            Duration::ZERO,
        )?),
        false => None,
    };
    let is_held = |id: u128| {
        let store = store.as_ref().map(|(store, _)| store);
        store.is_some_and(|store| store.is_held(BlockId(id)))
    };
    if let Some((store, told)) = &store {
        findings.notes.extend_from_slice(&told.notes);
        findings
            .lost
            .extend(told.damage.iter().map(ToString::to_string));
        let mut scrub = Scrub::new(1 << 40, Duration::ZERO);
        let mut now = Duration::ZERO;
        loop {
            now += Duration::from_secs(1);
            let done = store.scrub(&mut scrub, now);
            let bad = done.bad.iter().map(|bad| bad.damage.to_string());
            findings.lost.extend(bad);
            if done.is_round {
                break;
            }
        }
    }
    let view = engine.snapshot();
    let mut after = None;
    loop {
        let rows = blocks::rows_from(&*view, after, PAGE).map_err(unreadable)?;
        let ids = rows.iter().map(|(id, _)| *id);
        missing.extend(ids.filter(|id| !named.contains_key(id) && !is_held(*id)));
        match rows.last() {
            Some((id, _)) => after = Some(*id),
            None => break,
        }
    }
    let logged = named.iter().filter(|(_, is_put)| **is_put);
    missing.extend(logged.map(|(id, _)| *id).filter(|id| !is_held(*id)));
    let words = missing.iter().map(|id| {
        let id = BlockId(*id);
        format!("the bytes of block {id} are missing or damaged")
    });
    findings.lost.extend(words);
    findings.lost.sort();
    findings.lost.dedup();
    Ok(())
}

fn check_log(
    data: &Path,
    findings: &mut Findings,
    named: &mut Named,
) -> Result<Option<EntryId>, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let folder = data.join("log");
    if !folder.is_dir() {
        findings
            .damage
            .push(format!("{} is missing", folder.display()));
        return Ok(None);
    }
    let checked =
        Log::open(disk, &folder, Durability::Disk, 0, 0).and_then(|(mut log, unfinished)| {
            findings.notes.extend(unfinished);
            findings.can_rebuild = log.reaches_back();
            let oldest = log.oldest();
            log.replay(oldest, |record, kept| {
                note_blocks(&record, named);
                kept.take(record);
                let last = kept.last();
                kept.release(last);
                Ok(())
            })
        });
    match checked {
        Ok(replayed) => {
            if let Some(torn) = replayed.torn {
                match torn.lost {
                    0 => findings.notes.push(torn.words),
                    _ => findings.damage.push(format!(
                        "{}: unless the power went, acknowledged writes are lost",
                        torn.words
                    )),
                }
            }
            Ok(Some(replayed.last))
        }
        Err(error) if error.is_damage() => {
            findings.damage.push(error.context);
            findings.can_rebuild = false;
            findings.cut = first_bad(&folder)
                .map_err(|source| OpenError::io(format!("reading {}", folder.display()), source))?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Up to where the log is whole: the segment in which it ends, and the offset.
fn first_bad(folder: &Path) -> io::Result<Option<(PathBuf, u64)>> {
    let mut end = None;
    let mut before = None;
    for path in segments(folder)? {
        let bytes = std::fs::read(&path)?;
        let Some(read) = crate::storage::log::whole_until(&bytes, before) else {
            break;
        };
        before = Some((read.chain, read.sequence));
        let is_all = read.is_to_the_end;
        end = Some((path, read.offset));
        if !is_all {
            break;
        }
    }
    Ok(end)
}

fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Cuts the log where it is damaged. All of it as it was is kept beside it; says where.
pub(crate) fn cut(data: &Path, file: &Path, offset: u64) -> io::Result<PathBuf> {
    let folder = data.join("log");
    let aside = set_aside(&folder)?;
    RealDisk.create_folder(&folder)?;
    for path in segments(&aside)? {
        let name = path.file_name().unwrap_or_default();
        let is_last = Some(name) == file.file_name();
        let copy = folder.join(name);
        std::fs::copy(&path, &copy)?;
        let written = std::fs::File::options().write(true).open(&copy)?;
        if is_last {
            let size = written.metadata()?.len();
            written.set_len(offset)?;
            written.set_len(size)?;
        }
        written.sync_all()?;
        if is_last {
            break;
        }
    }
    match std::fs::remove_file(data.join("acknowledged")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for folder in [&folder, data] {
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(aside)
}

/// Gives a folder another name, beside those that were set aside before.
pub(crate) fn set_aside(folder: &Path) -> io::Result<PathBuf> {
    let mut names = (1..).map(|number: u64| folder.with_extension(format!("damaged-{number}")));
    let free = names
        .find(|name| !name.exists())
        .expect("there are numbers enough");
    std::fs::rename(folder, &free)?;
    Ok(free)
}
