//! What a start finds: sealed segments by their lists, the others by the headers of their blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::block::{Damage, DiskError};
use super::files::{self, Reading};
use super::format::{HEADER_BYTES, Header, Listed, SegmentId, Trailer};
use super::index::{Index, Place, State};
use super::scan::{Scanned, scan};
use super::segment::Segment;
use super::store::{BlockSettings, Blocks};
use crate::status::OpenError;
use crate::storage::disk::{Disk, File, SyncSite};

/// What a start found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockRecovery {
    /// Segments that had a list.
    pub listed: u64,
    /// Segments without a list, whose blocks were looked for.
    pub scanned: u64,
    /// What is damaged. Other blocks are found.
    pub damage: Vec<Damage>,
    /// What a crash left, and was cut off or removed.
    pub notes: Vec<String>,
}

/// A segment's file.
struct Found {
    sequence: u64,
    path: PathBuf,
    file: Box<dyn File>,
    size: u64,
    header: Result<Header, Damage>,
    list: Option<(Trailer, Vec<Listed>)>,
}

impl Blocks {
    /// Opens the store in the folder `blocks` of the data folder, and creates it if absent; `now`
    /// is on the caller's clock. Damage does not keep it from opening.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn open(
        data: &Path,
        settings: BlockSettings,
        disk: &Arc<dyn Disk>,
        now: Duration,
    ) -> Result<(Blocks, BlockRecovery), OpenError> {
        let folder = data.join("blocks");
        let failed = |source| OpenError::io(format!("opening {}", folder.display()), source);
        disk.create_folder(&folder).map_err(failed)?;
        let names = disk.list(&folder).map_err(failed)?;
        if names.is_empty() {
            disk.sync_folder(data, SyncSite::BlocksFolder)
                .map_err(failed)?;
        }
        let mut sequences: Vec<u64> = names.iter().filter_map(|it| files::sequence(it)).collect();
        sequences.sort_unstable();
        let mut recovery = Recovery {
            disk: &**disk,
            now,
            index: Index::default(),
            told: BlockRecovery::default(),
        };
        let found = sequences
            .into_iter()
            .map(|sequence| recovery.look(&folder, sequence))
            .collect::<Result<Vec<Found>, DiskError>>();
        let recovered = found.and_then(|found| recovery.take_all(found));
        recovered
            .map_err(|error| OpenError::io("opening the blocks", std::io::Error::other(error)))?;
        let Recovery { index, told, .. } = recovery;
        let blocks = Blocks::new(disk.clone(), &folder, settings, index);
        Ok((blocks, told))
    }
}

struct Recovery<'a> {
    disk: &'a dyn Disk,
    now: Duration,
    index: Index,
    told: BlockRecovery,
}

impl Recovery<'_> {
    /// Reads what a segment says of itself.
    fn look(&mut self, folder: &Path, sequence: u64) -> Result<Found, DiskError> {
        let path = files::path(folder, sequence);
        let failed = |source| DiskError::new("reading", &path, &source);
        let file = self.disk.open(&path).map_err(failed)?;
        let size = file.size().map_err(failed)?;
        let reading = Reading::new(&*file, &path);
        let mut header = reading.header();
        if let Ok(told) = &header
            && told.id.sequence != sequence
        {
            header = Err(Damage {
                path: path.clone(),
                offset: 0,
                what: format!("it is the file of segment {:016x}", told.id.sequence),
            });
        }
        let list = reading.list(size).filter(|(trailer, _)| {
            let is_its = |header: &Header| header.id == trailer.id;
            trailer.id.sequence == sequence && header.as_ref().map_or(true, is_its)
        });
        self.index.skip_through(sequence);
        Ok(Found {
            sequence,
            path,
            file,
            size,
            header,
            list,
        })
    }

    /// Takes segments, oldest first: a block's newest copy counts.
    fn take_all(&mut self, found: Vec<Found>) -> Result<(), DiskError> {
        let headers = found.iter().filter_map(|found| found.header.as_ref().ok());
        let ends: BTreeMap<u64, u32> = headers
            .filter_map(|header| header.before)
            .map(|before| (before.sequence, before.end))
            .collect();
        for mut found in found {
            let end = ends.get(&found.sequence).copied();
            match (found.list.take(), found.header.clone()) {
                (Some((trailer, blocks)), header) => self.take_listed(trailer, blocks, header),
                (None, Ok(header)) => self.take_unlisted(found, header, end)?,
                (None, Err(damage)) => self.take_unknown(&found, damage)?,
            }
        }
        Ok(())
    }

    fn take_listed(
        &mut self,
        trailer: Trailer,
        blocks: Vec<Listed>,
        header: Result<Header, Damage>,
    ) {
        self.told.listed += 1;
        let state = match header.is_ok() {
            true => State::Sealed(trailer.offset),
            false => State::Suspect,
        };
        let before = header.as_ref().ok().and_then(|header| header.before);
        self.told.damage.extend(header.err());
        let before = before.map(|before| before.sequence);
        self.index.add_segment(trailer.id, state, before);
        self.insert(trailer.id, blocks, &BTreeSet::new());
    }

    fn insert(&mut self, segment: SegmentId, blocks: Vec<Listed>, bad: &BTreeSet<u32>) {
        for Listed { block, offset } in blocks {
            let place = Place {
                segment: segment.sequence,
                offset,
                block,
                since: self.now,
            };
            let is_bad = bad.contains(&offset);
            let id = block.id;
            if is_bad && self.index.place(id).is_some() && !self.index.is_bad(id) {
                self.index.write(segment.sequence, block.size);
                continue;
            }
            self.index.insert(place);
            if is_bad {
                self.index.mark_bad(&place);
            }
        }
    }

    /// A segment whose blocks are found by their headers. It gets its list now.
    fn take_unlisted(
        &mut self,
        found: Found,
        header: Header,
        durable: Option<u32>,
    ) -> Result<(), DiskError> {
        let reading = Reading::new(&*found.file, &found.path);
        let Scanned {
            blocks,
            bad,
            damage,
            end,
        } = scan(&reading, header.id, found.size, durable);
        if blocks.is_empty() && damage.is_empty() {
            return self.drop_unused(&found.path);
        }
        self.told.scanned += 1;
        if u64::from(end) < found.size {
            self.told.notes.push(format!(
                "{} is cut off at offset {end}: {} bytes behind it were never held",
                found.path.display(),
                found.size - u64::from(end)
            ));
        }
        self.told.damage.extend(damage);
        let segment = Segment::found(found.file, &found.path, header.id, end, blocks.clone())?;
        let state = match segment.seal(SyncSite::BlocksRecovered) {
            Ok(()) => State::Sealed(end),
            Err(error) => {
                self.told.notes.push(error.to_string());
                State::Suspect
            }
        };
        let before = header.before.map(|before| before.sequence);
        self.index.add_segment(header.id, state, before);
        self.insert(header.id, blocks, &bad);
        Ok(())
    }

    /// A segment that neither its header nor its list makes known.
    fn take_unknown(&mut self, found: &Found, damage: Damage) -> Result<(), DiskError> {
        let reading = Reading::new(&*found.file, &found.path);
        let blank = reading.is_blank(u64::from(HEADER_BYTES), found.size);
        if blank.map_err(|source| DiskError::new("reading", &found.path, &source))? {
            // Its header was never durable, so nothing was held in it.
            return self.drop_unused(&found.path);
        }
        self.told.damage.push(damage);
        Ok(())
    }

    fn drop_unused(&mut self, path: &Path) -> Result<(), DiskError> {
        let words = format!("{} held nothing and is removed", path.display());
        self.told.notes.push(words);
        let removed = self.disk.remove(path);
        removed.map_err(|source| DiskError::new("removing", path, &source))
    }
}
