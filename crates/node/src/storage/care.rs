//! What an operator asks of a data folder that no process has: whether it is whole, and to go on
//! with what is left of its log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fader_chain::EntryId;

use crate::status::OpenError;
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::engine::{Engine, LsmEngine, Tree};
use crate::storage::log::{Durability, Log};

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
}

/// Reads all of the log and the engine of a member's folder. The caller has the folder's lock.
pub(crate) fn check(data: &Path, cache_bytes: u64) -> Result<Findings, OpenError> {
    let mut findings = Findings::default();
    let last = check_log(data, &mut findings)?;
    if !data.join("engine").is_dir() {
        return Ok(findings);
    }
    let engine = match LsmEngine::open(&data.join("engine"), cache_bytes) {
        Ok(engine) => engine,
        Err(OpenError::Damaged(words)) => {
            findings.damage.push(words);
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
    Ok(findings)
}

fn check_log(data: &Path, findings: &mut Findings) -> Result<Option<EntryId>, OpenError> {
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
        Err(OpenError::Damaged(words)) => {
            findings.damage.push(words);
            findings.can_rebuild = false;
            findings.cut = first_bad(&folder).map_err(|source| OpenError::Io {
                context: format!("reading {}", folder.display()),
                source,
            })?;
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
pub(crate) fn cut(data: &Path, (file, offset): &(PathBuf, u64)) -> io::Result<PathBuf> {
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
            written.set_len(*offset)?;
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
