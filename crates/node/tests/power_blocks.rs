//! Power cuts: a store of blocks on a disk that keeps what was synced and any part of the rest.
//! Between them processes are killed, whose files are as they wrote them, synced or not.
//!
//! A *incarnation* is a start, blocks that are held, removed and reclaimed, and a cut. Each block
//! that was held must be there whole in the next incarnation, until it is removed. A block that was
//! not held may be there whole, and is held then. A file that was reclaimed does not come back, and
//! no cut passes for damage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fader_node::blocks::{
    Block, BlockId, BlockSettings, Blocks, HeldBlock, PutError, ReadError, Scrub, Upload,
};
use fader_node::disk::{Disk, SyncSite};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use support::SimulatedDisk;

const LIVES: u64 = 4;
const STEPS_PER_LIFE: u64 = 12;
const SETTINGS: BlockSettings = BlockSettings {
    segment_bytes: 3000,
    memory_bytes: 1 << 20,
    reserve_bytes: 0,
};

/// The machine, from incarnation to incarnation.
struct World {
    disk: SimulatedDisk,
    /// The bytes of every block there ever was.
    all: BTreeMap<BlockId, Vec<u8>>,
    /// Those that must be there.
    held: BTreeMap<BlockId, Vec<u8>>,
    /// Files that were reclaimed, with their bytes.
    reclaimed: Vec<(PathBuf, Vec<u8>)>,
    /// Processes that were killed: each may leave a list that was written and not synced.
    kills: u64,
}

/// Why an incarnation ended early.
enum End {
    NoPower,
    Wrong(String),
}

type Step = Result<(), End>;

impl World {
    fn new(ignored: Option<SyncSite>) -> Self {
        let disk = SimulatedDisk::new();
        disk.create_folder(Path::new("/data")).unwrap();
        disk.sync_folder(Path::new("/"), SyncSite::DataFolder)
            .unwrap();
        disk.ignore_sync(ignored);
        World {
            disk,
            all: BTreeMap::new(),
            held: BTreeMap::new(),
            reclaimed: Vec::new(),
            kills: 0,
        }
    }

    /// One incarnation; the error says what was lost or told wrongly. Ends early without power.
    fn live(&mut self, seed: u64) -> Result<(), String> {
        match self.try_live(seed) {
            Err(End::Wrong(words)) => Err(words),
            Ok(()) | Err(End::NoPower) => Ok(()),
        }
    }

    /// An error means something as long as there is power.
    fn judge<T, E: ToString>(&self, result: Result<T, E>) -> Result<T, End> {
        result.map_err(|error| match self.disk.has_power() {
            true => End::Wrong(error.to_string()),
            false => End::NoPower,
        })
    }

    fn try_live(&mut self, seed: u64) -> Step {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opened = Blocks::open(Path::new("/data"), SETTINGS, &disk, Duration::ZERO);
        let (blocks, told) = self.judge(opened)?;
        self.judge(match &told.damage[..] {
            [] => Ok(()),
            [first, ..] => Err(format!("a cut passes for damage: {first}")),
        })?;
        self.judge(match told.scanned {
            few if few <= 2 + self.kills => Ok(()),
            many => Err(format!("{many} segments have no list: {:?}", told.notes)),
        })?;
        self.check(&blocks)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..STEPS_PER_LIFE {
            match random.random_range(0..10_u8) {
                0..5 => self.hold(&blocks, &mut random)?,
                5..8 => self.remove(&blocks, &mut random),
                _ => self.reclaim(&blocks)?,
            }
        }
        self.check(&blocks)
    }

    fn hold(&mut self, blocks: &Blocks, random: &mut ChaCha8Rng) -> Step {
        let mut uploads = Vec::new();
        for _ in 0..random.random_range(1..=3_u8) {
            let id = BlockId(random.random());
            let mut bytes = vec![0; random.random_range(1..900)];
            random.fill(&mut bytes[..]);
            let begun = self.judge(blocks.begin(Block::of(id, &bytes)))?;
            let mut upload: Upload = begun.unwrap();
            bytes
                .chunks(300)
                .for_each(|piece| upload.push(piece).unwrap());
            self.all.insert(id, bytes);
            uploads.push(upload);
        }
        let ids: Vec<BlockId> = uploads.iter().map(|upload| upload.block().id).collect();
        let answers = blocks.hold(uploads, Duration::ZERO);
        let mut step = Ok(());
        for (id, answer) in ids.into_iter().zip(answers) {
            match self.judge(answer) {
                Ok(()) => {
                    self.held.insert(id, self.all[&id].clone());
                }
                Err(end) => step = Err(end),
            }
        }
        step
    }

    fn remove(&mut self, blocks: &Blocks, random: &mut ChaCha8Rng) {
        let ids: Vec<BlockId> = self.held.keys().copied().collect();
        for _ in 0..random.random_range(1..=4_u8) {
            if !ids.is_empty() {
                let id = ids[random.random_range(0..ids.len())];
                self.held.remove(&id);
                blocks.remove(&[id]);
            }
        }
    }

    fn reclaim(&mut self, blocks: &Blocks) -> Step {
        let files = |disk: &SimulatedDisk| -> Vec<(PathBuf, Vec<u8>)> {
            let with_bytes = |path: PathBuf| Some((path.clone(), disk.content(&path)?));
            disk.files().into_iter().filter_map(with_bytes).collect()
        };
        let before = files(&self.disk);
        self.judge(blocks.reclaim())?;
        let after = self.disk.files();
        let gone = before.into_iter().filter(|(path, _)| !after.contains(path));
        self.reclaimed.extend(gone);
        Ok(())
    }

    /// Compares what is there with what was held, and holds it then.
    fn check(&mut self, blocks: &Blocks) -> Step {
        for (id, bytes) in &self.held {
            let read = self.judge(blocks.read(*id, 0..bytes.len() as u32))?;
            self.judge(same(*id, &read, bytes))?;
        }
        for (path, bytes) in &self.reclaimed {
            let back = self.disk.content(path).is_some_and(|now| now == *bytes);
            self.judge(match back {
                true => Err(format!("{} was reclaimed and is back", path.display())),
                false => Ok(()),
            })?;
        }
        for HeldBlock { block, .. } in blocks.page(None, usize::MAX) {
            let read = self.judge(blocks.read(block.id, 0..block.size))?;
            self.judge(same(block.id, &read, &self.all[&block.id]))?;
            self.held.insert(block.id, read.to_vec());
        }
        let mut scrub = Scrub::new(1 << 40, Duration::ZERO);
        let scrubbed = blocks.scrub(&mut scrub, Duration::from_secs(1));
        self.judge(match scrubbed.bad.first() {
            None => Ok(()),
            Some(bad) => Err(format!("a scrub finds {}", bad.damage)),
        })
    }

    /// The process is gone, and perhaps the machine had no power either.
    fn crash(&mut self, seed: u64, ignored: Option<SyncSite>) {
        if seed.is_multiple_of(3) {
            self.disk.restore_power();
            self.kills += 1;
        } else {
            self.disk = self.disk.crash(seed);
            self.disk.ignore_sync(ignored);
        }
    }
}

fn same(id: BlockId, found: &[u8], held: &[u8]) -> Result<(), String> {
    match found == held {
        true => Ok(()),
        false => Err(format!("block {id} has other bytes")),
    }
}

/// Lives in a row, each cut at a random operation, the last one not cut.
fn run_seed(seed: u64, ignored: Option<SyncSite>) -> Result<(), String> {
    let mut world = World::new(ignored);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for incarnation in 0..LIVES {
        // Half of the cuts while it starts.
        let cut = match random.random_bool(0.5) {
            true => random.random_range(0..16),
            false => random.random_range(0..60),
        };
        world.disk.cut_power_at(world.disk.operations() + cut);
        world.live(seed * LIVES + incarnation)?;
        world.crash(random.random(), ignored);
    }
    world.live(seed)
}

/// Two lives cut together at an operation, and one that is not. Says how many operations the first
/// two had.
fn run_cut_at(cut: u64, seed: u64) -> u64 {
    let mut world = World::new(None);
    world.disk.cut_power_at(cut);
    world.live(seed).unwrap();
    world.live(seed + 1).unwrap();
    let operations = world.disk.operations();
    for crash in [cut, cut + 1000, cut + 2000] {
        let mut next = World {
            disk: world.disk.crash(crash),
            all: world.all.clone(),
            held: world.held.clone(),
            reclaimed: world.reclaimed.clone(),
            kills: world.kills,
        };
        next.live(seed + 2)
            .unwrap_or_else(|error| panic!("cut at {cut}, seed {crash}: {error}"));
    }
    operations
}

fn seeds(default: u64) -> u64 {
    std::env::var("FADER_POWER_SEEDS").map_or(default, |seeds| seeds.parse().unwrap())
}

/// It shows BSTORE-1.
#[test]
fn a_cut_at_every_operation_loses_no_block() {
    for seed in [1, 10, 20] {
        let mut cut = 0;
        while cut <= run_cut_at(cut, seed) {
            cut += 1;
        }
        assert!(40 < cut, "only {cut} operations were cut");
    }
}

#[test]
fn a_cut_at_random_operations_loses_no_block() {
    for seed in 0..seeds(1000) {
        run_seed(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// It shows BSTORE-3 and BSTORE-1.
#[test]
fn any_one_sync_of_blocks_left_out_is_noticed() {
    for site in SyncSite::BLOCKS {
        let noticed = (0..20_000).find(|seed| run_seed(*seed, Some(site)).is_err());
        let Some(seed) = noticed else {
            panic!("{site:?} may be left out: no seed notices");
        };
        assert_eq!(run_seed(seed, None), Ok(()), "seed {seed} fails anyway");
    }
}

/// It shows BSTORE-2.
#[test]
fn a_failed_sync_gives_the_segment_up_and_the_next_one_takes_the_block() {
    let disk = SimulatedDisk::new();
    disk.create_folder(Path::new("/data")).unwrap();
    let seam: Arc<dyn Disk> = Arc::new(disk.clone());
    let open = || Blocks::open(Path::new("/data"), SETTINGS, &seam, Duration::ZERO).unwrap();
    let (blocks, _) = open();
    let put = |blocks: &Blocks, number: u128| {
        let bytes = [number as u8; 100];
        let block = Block::of(BlockId(number), &bytes);
        let mut upload = blocks.begin(block)?.unwrap();
        upload.push(&bytes)?;
        blocks.hold(vec![upload], Duration::ZERO).remove(0)
    };
    put(&blocks, 1).unwrap();
    disk.fail_syncs(true);
    assert!(matches!(put(&blocks, 2), Err(PutError::Disk(_))));
    assert!(matches!(put(&blocks, 3), Err(PutError::Disk(_))));
    disk.fail_syncs(false);
    assert_eq!(
        blocks.read(BlockId(2), 0..1),
        Err(ReadError::Absent(BlockId(2)))
    );
    put(&blocks, 4).unwrap();
    assert_eq!(blocks.read(BlockId(1), 0..100).unwrap(), [1; 100][..]);

    // What the failed sync left is void: the segment that followed says so.
    let (again, told) = Blocks::open(
        Path::new("/data"),
        SETTINGS,
        &(Arc::new(disk.copy()) as Arc<dyn Disk>),
        Duration::ZERO,
    )
    .unwrap();
    let ids: Vec<u128> = again.page(None, 9).iter().map(|it| it.block.id.0).collect();
    assert_eq!((ids, told.damage), (vec![1, 4], Vec::new()));

    // A segment that was given up is rewritten though it is all alive.
    let done = blocks.reclaim().unwrap();
    assert_eq!((done.segments, done.copied), (1, 1));
    assert_eq!(blocks.read(BlockId(1), 0..100).unwrap(), [1; 100][..]);
    assert_eq!(blocks.reclaim().unwrap().segments, 0);
}
