//! The store: uploads, the group commit, reads, removals.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::block::{Block, BlockBytes, BlockId, Damage, DiskError, Origin, PutError, ReadError};
use super::budget::Budget;
use super::buffers::Buffers;
use super::files::{self, Reading};
use super::format::{Before, SegmentId, block_size};
use super::index::{Index, Known, Place, State};
use super::opened::{OpenBlock, Opened};
use super::segment::Segment;
use super::upload::{Gathered, Upload};
use crate::random;
use crate::storage::disk::{Disk, SyncSite};

/// The numbers of a store of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSettings {
    /// Bytes after which a segment is followed by another.
    pub segment_bytes: u32,
    /// Bytes of memory that all uploads may have.
    pub memory_bytes: u64,
    /// Bytes of the disk that blocks of clients leave free; those of other members three quarters.
    pub reserve_bytes: u64,
}

impl BlockSettings {
    /// Bytes that blocks of the origin leave free (BSTORE-7).
    fn left_free(&self, origin: Origin) -> u64 {
        match origin {
            Origin::Client => self.reserve_bytes,
            Origin::Member => self.reserve_bytes - self.reserve_bytes / 4,
        }
    }
}

impl Default for BlockSettings {
    fn default() -> Self {
        BlockSettings {
            segment_bytes: 256 << 20,
            memory_bytes: 256 << 20,
            reserve_bytes: 1 << 30,
        }
    }
}

/// What a store holds now, and what it did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounters {
    /// Files.
    pub segments: u64,
    /// Blocks that are held.
    pub blocks: u64,
    /// Bytes that they take, headers included.
    pub alive_bytes: u64,
    /// Bytes of removed blocks that were not reclaimed yet.
    pub dead_bytes: u64,
    /// Blocks whose bytes are to be replaced by right ones.
    pub bad_blocks: u64,
    /// Bytes of memory that uploads have.
    pub memory_bytes: u64,
    /// Syncs of group commits.
    pub syncs: u64,
}

/// A block that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBlock {
    /// The block.
    pub block: Block,
    /// When it came, or when the store was opened, on the caller's clock.
    pub since: Duration,
}

/// A store of immutable blocks in one folder. Its functions block the thread that calls them.
pub struct Blocks {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) folder: PathBuf,
    pub(super) settings: BlockSettings,
    pub(super) index: Mutex<Index>,
    /// Held while segments are rewritten.
    pub(super) rewriting: Mutex<()>,
    writer: Mutex<Writer>,
    queue: Mutex<Vec<Waiting>>,
    budget: Arc<Mutex<Budget>>,
    buffers: Buffers,
    pub(super) opened: Opened,
    syncs: AtomicU64,
}

#[derive(Default)]
struct Writer {
    open: Option<Segment>,
    /// The end of a segment that was given up, until another one says it.
    before: Option<Before>,
}

type Answer = Arc<Mutex<Option<Result<(), PutError>>>>;

/// A block that waits to be held.
struct Waiting {
    gathered: Gathered,
    since: Duration,
    answer: Answer,
}

impl Waiting {
    fn answer(&self, answer: Result<(), PutError>) {
        self.answer.lock().get_or_insert(answer);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.answer(Err(PutError::Interrupted));
    }
}

/// Blocks that were written and not synced.
type Written = Vec<(Waiting, Place)>;

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Blocks {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        folder: &Path,
        settings: BlockSettings,
        index: Index,
    ) -> Self {
        Blocks {
            disk,
            folder: folder.to_owned(),
            settings,
            index: Mutex::new(index),
            rewriting: Mutex::default(),
            writer: Mutex::default(),
            queue: Mutex::default(),
            budget: Arc::new(Mutex::new(Budget::new(settings.memory_bytes))),
            buffers: Buffers::default(),
            opened: Opened::default(),
            syncs: AtomicU64::new(0),
        }
    }

    /// Begins to take a block; `None` when it is held already. The bytes of a block that is damaged
    /// here are taken in place of those.
    ///
    /// # Errors
    /// [`PutError::Size`], [`PutError::Differs`], [`PutError::Memory`], [`PutError::Full`].
    pub fn begin(&self, block: Block) -> Result<Option<Upload>, PutError> {
        match self.index.lock().known(&block) {
            Known::Held => return Ok(None),
            Known::Other => return Err(PutError::Differs(block.id)),
            Known::Wanted => {}
        }
        let upload = Upload::begin(block, &self.budget)?;
        self.take_room(&mut self.free(), &block, upload.origin())?;
        Ok(Some(upload))
    }

    /// A new block of bytes that are all there, whose memory is the caller's until it is held.
    ///
    /// # Errors
    /// [`PutError::Size`], [`PutError::Full`].
    pub fn gathered(&self, bytes: BlockBytes, origin: Origin) -> Result<Upload, PutError> {
        let upload = Upload::of(bytes, origin)?;
        self.take_room(&mut self.free(), &upload.block(), origin)?;
        Ok(upload)
    }

    /// Writes blocks and makes them durable. One sync serves these and all that other threads wait
    /// for meanwhile. Each has its own answer: held, or why not. A refused block left nothing that
    /// is found.
    pub fn hold(&self, uploads: Vec<Upload>, now: Duration) -> Vec<Result<(), PutError>> {
        let answers: Vec<Answer> = uploads
            .into_iter()
            .map(|upload| self.enqueue(upload, now))
            .collect();
        answers.iter().map(|answer| self.settle(answer)).collect()
    }

    fn enqueue(&self, upload: Upload, since: Duration) -> Answer {
        let answer = Answer::default();
        match upload.finish() {
            Ok(gathered) => self.queue.lock().push(Waiting {
                gathered,
                since,
                answer: answer.clone(),
            }),
            Err(error) => *answer.lock() = Some(Err(error)),
        }
        answer
    }

    /// Waits for an answer: the thread that gets the writer carries all that waits.
    fn settle(&self, answer: &Answer) -> Result<(), PutError> {
        loop {
            if let Some(answer) = answer.lock().take() {
                return answer;
            }
            let mut writer = self.writer.lock();
            if answer.lock().is_none() {
                let group = std::mem::take(&mut *self.queue.lock());
                self.commit(&mut writer, group);
            }
        }
    }

    fn commit(&self, writer: &mut Writer, group: Vec<Waiting>) {
        let mut free = self.free();
        let mut written = Written::new();
        let mut ids = BTreeSet::new();
        for mut waiting in group {
            if !ids.insert(waiting.gathered.block.id) {
                // Its answer depends on the first one's.
                self.queue.lock().push(waiting);
                continue;
            }
            match self.add(writer, &mut waiting, &mut free, &mut written) {
                Ok(Some(place)) => written.push((waiting, place)),
                Ok(None) => waiting.answer(Ok(())),
                Err(error) => waiting.answer(Err(error)),
            }
        }
        if let Some(open) = writer.open.as_mut().filter(|_| !written.is_empty()) {
            let (id, synced) = (open.id(), open.synced());
            self.syncs.fetch_add(1, Ordering::Relaxed);
            match open.sync(SyncSite::Blocks) {
                Ok(()) => self.on_durable(&mut written),
                Err(error) => {
                    let _: PutError = self.give_up(writer, id, synced, &mut written, error);
                }
            }
        }
    }

    /// Appends a block; `None` when it is held already.
    fn add(
        &self,
        writer: &mut Writer,
        waiting: &mut Waiting,
        free: &mut Result<u64, PutError>,
        written: &mut Written,
    ) -> Result<Option<Place>, PutError> {
        let block = waiting.gathered.block;
        match self.index.lock().known(&block) {
            Known::Held => return Ok(None),
            Known::Other => return Err(PutError::Differs(block.id)),
            Known::Wanted => {}
        }
        self.take_room(free, &block, waiting.gathered.origin)?;
        let open = self.open_for(writer, &block, written)?;
        let (id, synced) = (open.id(), open.synced());
        let gathered = &mut waiting.gathered;
        let sums = std::mem::take(&mut gathered.sums);
        match open.append(&block, sums, &gathered.parts) {
            Ok(offset) => Ok(Some(Place {
                segment: id.sequence,
                offset,
                block,
                since: waiting.since,
            })),
            Err(error) => Err(self.give_up(writer, id, synced, written, error)),
        }
    }

    /// The segment that takes the block: newer than one where it lies damaged.
    fn open_for<'a>(
        &self,
        writer: &'a mut Writer,
        block: &Block,
        written: &mut Written,
    ) -> Result<&'a mut Segment, PutError> {
        let limit = self.settings.segment_bytes;
        let damaged = self.index.lock().place(block.id).map(|place| place.segment);
        let takes = |open: &Segment| {
            open.has_room(block.size, limit) && damaged.is_none_or(|it| it <= open.id().sequence)
        };
        if let Some(full) = writer.open.take_if(|open| !takes(open)) {
            let (id, end, synced) = (full.id(), full.end(), full.synced());
            match full.seal(SyncSite::Blocks) {
                Ok(()) => {
                    let mut index = self.index.lock();
                    index.set_state(id.sequence, State::Sealed(end));
                    drop(index);
                    self.on_durable(written);
                }
                Err(error) => return Err(self.give_up(writer, id, synced, written, error)),
            }
        }
        if writer.open.is_none() {
            writer.open = Some(self.begin_segment(writer.before)?);
            writer.before = None;
        }
        Ok(writer.open.as_mut().expect("a segment was just begun"))
    }

    /// Begins a segment, and takes note of it.
    pub(super) fn begin_segment(&self, before: Option<Before>) -> Result<Segment, DiskError> {
        let random = random::number()
            .map_err(|error| DiskError::new("naming a segment of", &self.folder, &error))?;
        let sequence = self.index.lock().next_sequence();
        let id = SegmentId { random, sequence };
        let segment = Segment::begin(&*self.disk, &self.folder, id, before)?;
        let before = before.map(|before| before.sequence);
        self.index.lock().add_segment(id, State::Open, before);
        Ok(segment)
    }

    /// BSTORE-2: nothing is known of what was written since the last sync.
    fn give_up(
        &self,
        writer: &mut Writer,
        id: SegmentId,
        synced: u32,
        written: &mut Written,
        error: DiskError,
    ) -> PutError {
        writer.open = None;
        writer.before = Some(Before {
            sequence: id.sequence,
            end: synced,
        });
        self.index.lock().set_state(id.sequence, State::Suspect);
        let error = PutError::from(error);
        for (waiting, _) in written.drain(..) {
            waiting.answer(Err(error.clone()));
        }
        error
    }

    /// BSTORE-1: from now on they are found.
    fn on_durable(&self, written: &mut Written) {
        let mut index = self.index.lock();
        for (waiting, place) in written.drain(..) {
            index.insert(place);
            waiting.answer(Ok(()));
        }
    }

    /// Bytes that are free on the disk.
    fn free(&self) -> Result<u64, PutError> {
        let free = self.disk.bytes_free(&self.folder);
        Ok(free.map_err(|error| DiskError::new("measuring", &self.folder, &error))?)
    }

    /// Takes room for a block of what is free, which may be less than its origin leaves free.
    fn take_room(
        &self,
        free: &mut Result<u64, PutError>,
        block: &Block,
        origin: Origin,
    ) -> Result<(), PutError> {
        let free = free.as_mut().map_err(|error| error.clone())?;
        let left = free.checked_sub(u64::from(block_size(block.size)));
        let left = left.filter(|left| self.settings.left_free(origin) <= *left);
        *free = left.ok_or(PutError::Full)?;
        Ok(())
    }

    /// Whether the block is held, with no damage that is known.
    #[must_use]
    pub fn is_held(&self, id: BlockId) -> bool {
        let index = self.index.lock();
        index.place(id).is_some() && !index.is_bad(id)
    }

    /// Bytes of a block that is held, or damaged.
    #[must_use]
    pub fn size(&self, id: BlockId) -> Option<u32> {
        self.index.lock().place(id).map(|place| place.block.size)
    }

    /// Bytes of a block; all are compared with their checksums in whole pieces first (BSTORE-4).
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(&self, id: BlockId, range: Range<u32>) -> Result<Bytes, ReadError> {
        loop {
            let place = self.index.lock().place(id).ok_or(ReadError::Absent(id))?;
            if place.block.size < range.end || range.end < range.start {
                let Range { start, end } = range;
                return Err(ReadError::Range { id, start, end });
            }
            let read = self.open_block(&place, false);
            let read = read.and_then(|block| self.read_range(&block, &range, false));
            if read.is_err() && self.on_unreadable(&place, &read) {
                continue;
            }
            return read;
        }
    }

    /// The same bytes, if they are in memory: it does not wait for the disk. Where they are not
    /// right, [`Blocks::read`] tells.
    pub fn read_cached(&self, id: BlockId, range: &Range<u32>) -> Option<Bytes> {
        let place = self.index.lock().place(id)?;
        if place.block.size < range.end || range.end < range.start {
            return None;
        }
        let block = match self.opened.get(&place) {
            Some(block) => block,
            None => self.keep_open(&place)?,
        };
        self.read_range(&block, range, true).ok()
    }

    /// Opens a block whose header is in memory for ranges that follow.
    fn keep_open(&self, place: &Place) -> Option<Arc<OpenBlock>> {
        let block = Arc::new(self.open_block(place, true).ok()?);
        self.opened.add(Arc::clone(&block));
        // Its file may have been removed meanwhile, which no later removal closes.
        if self.index.lock().place(place.block.id) != Some(*place) {
            self.opened.close(place.segment);
        }
        Some(block)
    }

    /// A block could not be read where it was. Says whether it lies elsewhere, or nowhere, by now;
    /// otherwise its damage is noted.
    pub(super) fn on_unreadable<T>(&self, place: &Place, read: &Result<T, ReadError>) -> bool {
        let mut index = self.index.lock();
        if index.place(place.block.id) != Some(*place) {
            return true;
        }
        if let Err(ReadError::Damaged(_)) = read {
            index.mark_bad(place);
        }
        false
    }

    /// A block as it lies there: its sums and its bytes.
    pub(super) fn load(&self, place: &Place) -> Result<(Vec<u32>, Bytes), ReadError> {
        let block = self.open_block(place, false)?;
        let bytes = self.read_range(&block, &(0..place.block.size), false)?;
        Ok((block.head.sums, bytes))
    }

    /// Opens the file that has a block, and reads its header.
    fn open_block(&self, place: &Place, is_cached: bool) -> Result<OpenBlock, ReadError> {
        let id = self.index.lock().segment(place.segment).map(|it| it.id);
        let id = id.ok_or(ReadError::Absent(place.block.id))?;
        let path = files::path(&self.folder, place.segment);
        let file = self.open_file(&path)?;
        let reading = Reading {
            file: &*file,
            path: &path,
            is_cached,
        };
        let head = reading.head(id, place.offset, &place.block)?;
        Ok(OpenBlock {
            place: *place,
            head,
            file,
        })
    }

    /// The bytes of a range of an open block, compared with their checksums.
    fn read_range(
        &self,
        block: &OpenBlock,
        range: &Range<u32>,
        is_cached: bool,
    ) -> Result<Bytes, ReadError> {
        let path = files::path(&self.folder, block.place.segment);
        let reading = Reading {
            file: &*block.file,
            path: &path,
            is_cached,
        };
        let offset = block.place.offset;
        let (skipped, bytes) = reading.pieces(&block.head, offset, range, &self.buffers)?;
        Ok(cut(range, skipped, &bytes))
    }

    /// Opens a segment's file to read it.
    pub(super) fn open_file(
        &self,
        path: &Path,
    ) -> Result<Box<dyn crate::storage::disk::File>, ReadError> {
        self.disk.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ReadError::Damaged(Damage {
                path: path.to_owned(),
                offset: 0,
                what: "the file is missing".to_owned(),
            }),
            _ => ReadError::Disk(DiskError::new("opening", path, &error)),
        })
    }

    /// These blocks are free: they are found no more, and their bytes may be reclaimed. Says how
    /// many of them were held. A start finds again those that were not reclaimed.
    pub fn remove(&self, ids: &[BlockId]) -> u64 {
        let mut index = self.index.lock();
        ids.iter().filter(|id| index.remove(**id)).count() as u64
    }

    /// At most `limit` blocks behind `after`, in the order of their ids. The caller sees which of
    /// them have no row, and for how long.
    #[must_use]
    pub fn page(&self, after: Option<BlockId>, limit: usize) -> Vec<HeldBlock> {
        let places = self.index.lock().page(after, limit);
        let held = places.into_iter().map(|place| HeldBlock {
            block: place.block,
            since: place.since,
        });
        held.collect()
    }

    /// Blocks of which bytes were found damaged. [`Blocks::begin`] takes good bytes for them.
    #[must_use]
    pub fn bad(&self) -> Vec<Block> {
        self.index.lock().bad()
    }

    /// What the store holds and did.
    #[must_use]
    pub fn counters(&self) -> BlockCounters {
        let totals = self.index.lock().totals();
        BlockCounters {
            segments: totals.segments,
            blocks: totals.blocks,
            alive_bytes: totals.alive,
            dead_bytes: totals.dead,
            bad_blocks: totals.bad,
            memory_bytes: self.budget.lock().used(),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}

/// A range of a block, of bytes that begin at `from` of it.
fn cut(range: &Range<u32>, from: u32, bytes: &Bytes) -> Bytes {
    let (start, end) = (range.start - from, range.end - from);
    bytes.slice(start as usize..end as usize)
}
