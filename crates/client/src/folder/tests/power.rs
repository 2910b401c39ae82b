//! Power cuts and kills, of processes that share a folder and take turns by a seed.
//!
//! What a process was told must hold in the next life; what it was not told may have happened once,
//! or not at all. Each guard of the store is left out once, and some seed must notice.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use object_store::path::Path;
use object_store::{Attributes, Error, PutMode, UpdateVersion};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::disk::{Disk, Guard};
use super::super::key::{CONTROL, Key};
use super::super::store::Store;
use super::super::walk::Walk;
use super::simulated::SimulatedDisk;

const PROCESSES: u64 = 3;
const LIVES: u64 = 3;
const CALLS: u64 = 6;
const COUNTER: &str = "n/counter";

const GUARDS: [Guard; 9] = [
    Guard::Body,
    Guard::Entry,
    Guard::Parent,
    Guard::Removal,
    Guard::Refusal,
    Guard::Format,
    Guard::Stripe,
    Guard::Owner,
    Guard::Round,
];

/// What processes tried, and what they were told.
#[derive(Debug, Default)]
struct Told {
    /// Counts by their name, with the ETag that each was told.
    counts: BTreeMap<String, String>,
    tried: BTreeSet<String>,
    /// Keys that were created, by body and ETag.
    created: BTreeMap<String, (String, String)>,
    creations_tried: BTreeSet<String>,
    /// Keys that were told to be there.
    present: BTreeSet<String>,
    /// ETags that were told to be old.
    old: BTreeSet<String>,
    /// What each key of one process may have.
    own: BTreeMap<String, BTreeSet<Option<String>>>,
    e_tags: BTreeSet<String>,
    broken: Vec<String>,
}

type Process = Arc<Store<SimulatedDisk>>;

fn key(name: &str) -> Key {
    Key::new(&Path::from(name)).unwrap()
}

fn put(store: &Process, name: &str, body: &str, mode: &PutMode) -> Result<String, Error> {
    let key = key(name);
    store.check(&key, mode)?;
    let staged = store.stage(&key, &Attributes::new())?;
    let middle = body.len() / 2;
    staged.write(&key, 0, &body.as_bytes()[..middle])?;
    staged.write(&key, middle as u64, &body.as_bytes()[middle..])?;
    staged.publish(&key, mode)
}

fn get(store: &Process, name: &str) -> Result<Option<(String, String)>, Error> {
    match store.object(&key(name)) {
        Ok(object) => {
            let body = store.read(&object, 0, object.meta.size as usize)?;
            let body = String::from_utf8_lossy(&body).into_owned();
            Ok(Some((body, object.meta.e_tag.unwrap())))
        }
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn update(e_tag: &str) -> PutMode {
    PutMode::Update(UpdateVersion {
        e_tag: Some(e_tag.to_owned()),
        version: None,
    })
}

/// One process of one life.
struct Life<'a> {
    disk: SimulatedDisk,
    told: &'a Mutex<Told>,
    /// What it shares with others; `None` to open its own.
    store: Option<Process>,
    name: String,
    random: ChaCha8Rng,
    /// Calls of all processes of this life: numbers of the kinds below.
    kinds: std::ops::Range<u8>,
}

impl Life<'_> {
    fn run(&mut self) {
        if let Err(error) = self.calls()
            && self.disk.has_power()
        {
            let broken = format!("{} failed with power: {error}", self.name);
            self.told.lock().unwrap().broken.push(broken);
        }
    }

    fn calls(&mut self) -> Result<(), Error> {
        let store = match &self.store {
            None => Arc::new(Store::open(self.disk.clone())?),
            Some(store) => Arc::clone(store),
        };
        for serial in 0..CALLS {
            let name = format!("{}.{serial}", self.name);
            match self.random.random_range(self.kinds.clone()) {
                0 | 1 => self.count(&store, &name)?,
                2 => self.create(&store, &name)?,
                3 => self.put_own(&store, &name)?,
                4 => self.delete_own(&store)?,
                _ => {
                    Walk::new(&store, None, None)?.next(1_000)?;
                }
            }
        }
        Ok(())
    }

    /// Counts itself once.
    fn count(&mut self, store: &Process, name: &str) -> Result<(), Error> {
        loop {
            let found = get(store, COUNTER)?;
            let (body, mode) = match &found {
                None => (String::new(), PutMode::Create),
                Some((body, e_tag)) => (body.clone(), update(e_tag)),
            };
            self.told.lock().unwrap().tried.insert(name.to_owned());
            let put = put(store, COUNTER, &format!("{body}{name};"), &mode);
            let mut told = self.told.lock().unwrap();
            match put {
                Ok(e_tag) => {
                    told.e_tag(&e_tag);
                    told.counts.insert(name.to_owned(), e_tag);
                    return Ok(());
                }
                Err(Error::AlreadyExists { .. }) => {
                    told.present.insert(COUNTER.to_owned());
                }
                Err(Error::Precondition { .. }) => {
                    told.old.extend(found.map(|(_, e_tag)| e_tag));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates an object that others create as well.
    fn create(&mut self, store: &Process, name: &str) -> Result<(), Error> {
        let at = format!("created/{}/it", self.random.random_range(0..4_u8));
        let body = format!("created by {name}");
        let mut told = self.told.lock().unwrap();
        told.creations_tried.insert(body.clone());
        drop(told);
        let put = put(store, &at, &body, &PutMode::Create);
        let mut told = self.told.lock().unwrap();
        match put {
            Ok(e_tag) => {
                told.e_tag(&e_tag);
                if let Some(other) = told.created.insert(at, (body, e_tag)) {
                    told.broken.push(format!("{name} created after {other:?}"));
                }
                Ok(())
            }
            Err(Error::AlreadyExists { .. }) => {
                told.present.insert(at);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn own(&mut self) -> String {
        let process = self.name.split('.').next().unwrap();
        let at = self.random.random_range(0..2_u8);
        format!("own/{process}/{at}/it")
    }

    fn may_have(&self, own: &str, body: Option<String>) {
        let mut told = self.told.lock().unwrap();
        let states = told.own.entry(own.to_owned()).or_insert([None].into());
        states.insert(body);
    }

    fn has(&self, own: &str, body: Option<String>) {
        let mut told = self.told.lock().unwrap();
        told.own.insert(own.to_owned(), [body].into());
    }

    fn put_own(&mut self, store: &Process, name: &str) -> Result<(), Error> {
        let own = self.own();
        let body = format!("{name} ").repeat(self.random.random_range(1..20));
        self.may_have(&own, Some(body.clone()));
        let e_tag = put(store, &own, &body, &PutMode::Overwrite)?;
        self.told.lock().unwrap().e_tag(&e_tag);
        self.has(&own, Some(body));
        Ok(())
    }

    fn delete_own(&mut self, store: &Process) -> Result<(), Error> {
        let own = self.own();
        self.may_have(&own, None);
        store
            .delete(&[key(&own)])
            .into_iter()
            .collect::<Result<(), Error>>()?;
        self.has(&own, None);
        Ok(())
    }
}

impl Told {
    fn e_tag(&mut self, e_tag: &str) {
        if !self.e_tags.insert(e_tag.to_owned()) {
            self.broken.push(format!("{e_tag} was told twice"));
        }
    }

    /// Compares what is there with what was told.
    fn check(&self, store: &Process) -> Result<(), String> {
        if let Some(broken) = self.broken.first() {
            return Err(broken.clone());
        }
        let text = |error: Error| error.to_string();
        let counter = get(store, COUNTER).map_err(text)?;
        let body = counter.as_ref().map_or("", |(body, _)| body);
        let counts: Vec<&str> = body.split_terminator(';').collect();
        let distinct: BTreeSet<&str> = counts.iter().copied().collect();
        if distinct.len() != counts.len() {
            return Err(format!("counted twice: {body}"));
        }
        if let Some(lost) = self
            .counts
            .keys()
            .find(|it| !distinct.contains(it.as_str()))
        {
            return Err(format!("{lost} was told to be counted: {body}"));
        }
        if let Some(strange) = counts.iter().find(|it| !self.tried.contains(**it)) {
            return Err(format!("{strange} is no count: {body}"));
        }
        if let (Some((_, found)), Some(last)) = (&counter, counts.last()) {
            if self.counts.get(*last).is_some_and(|told| told != found) {
                return Err(format!("the ETag of {last} is {found}"));
            }
            if self.old.contains(found) {
                return Err(format!("{found} was told to be old"));
            }
        }
        for at in &self.present {
            if get(store, at).map_err(text)?.is_none() {
                return Err(format!("{at} was told to be there"));
            }
        }
        for (at, told) in &self.created {
            let found = get(store, at).map_err(text)?;
            if found.as_ref() != Some(told) {
                return Err(format!("{at} was created as {told:?}, found {found:?}"));
            }
        }
        for number in 0..4 {
            let found = get(store, &format!("created/{number}/it")).map_err(text)?;
            if let Some((body, _)) = found
                && !self.creations_tried.contains(&body)
            {
                return Err(format!("no put wrote {body:?}"));
            }
        }
        for (at, states) in &self.own {
            let found = get(store, at).map_err(text)?.map(|(body, _)| body);
            if !states.contains(&found) {
                return Err(format!("{at} has {found:?}, not one of {states:?}"));
            }
        }
        Ok(())
    }

    /// Learns from a disk on which everything is durable.
    fn learn(&mut self, disk: &SimulatedDisk) -> Result<(), String> {
        let text = |error: Error| error.to_string();
        let store = Arc::new(Store::open(disk.clone()).map_err(text)?);
        for (at, states) in &mut self.own {
            *states = [get(&store, at).map_err(text)?.map(|(body, _)| body)].into();
        }
        Ok(())
    }
}

/// Checks a start: all that was told holds, a put goes through, nothing is left over.
fn check_start(disk: &SimulatedDisk, told: &Mutex<Told>) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    let store = Arc::new(Store::open(disk.clone()).map_err(text)?);
    told.lock().unwrap().check(&store)?;
    put(&store, "probe", "it", &PutMode::Overwrite).map_err(text)?;
    let left = || {
        let control = disk.folder(&0, CONTROL)?;
        disk.list(&disk.folder(&control, "staged")?)
    };
    let left = left().map_err(|error| error.to_string())?;
    match left.len() {
        1 => Ok(()),
        _ => Err(format!("left over: {left:?}")),
    }
}

/// A store that is ready to write; none when the power is cut before.
fn ready(disk: &SimulatedDisk) -> Option<Process> {
    let store = Arc::new(Store::open(disk.clone()).ok()?);
    store.staging().ok()?;
    Some(store)
}

fn live(disk: &SimulatedDisk, told: &Mutex<Told>, life: u64, random: &mut ChaCha8Rng) {
    let seed = random.random();
    let kinds = [0..6, 0..1, 0..3, 2..3][random.random_range(0..4)].clone();
    // Some are threads of one process; the rest are processes of their own.
    let shared = match random.random_range(0..3_u8) {
        0 => Some(0..PROCESSES),
        1 => Some(1..PROCESSES),
        _ => None,
    };
    let shared = shared.map(|threads| (threads, ready(disk)));
    let processes = (0..PROCESSES).map(|number| {
        let own = shared.as_ref().filter(|(of, _)| of.contains(&number));
        let mut life = Life {
            disk: disk.clone(),
            told,
            store: own.and_then(|(_, store)| store.clone()),
            name: format!("p{number}.{life}"),
            random: ChaCha8Rng::seed_from_u64(seed ^ (number << 32)),
            kinds: kinds.clone(),
        };
        Box::new(move || life.run()) as Box<dyn FnOnce() + Send>
    });
    disk.play(seed, processes.collect());
}

/// Lives in a row, each cut at a random operation; the error says what was broken.
fn run_seed(seed: u64, ignored: Option<Guard>) -> Result<(), String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let told = Mutex::default();
    let mut disk = SimulatedDisk::new(ignored);
    for life in 0..LIVES {
        let cut = match random.random_range(0..4_u8) {
            0 => random.random_range(0..60),
            1 => u64::MAX,
            _ => random.random_range(0..500),
        };
        disk.cut_power_at(disk.operations().saturating_add(cut));
        live(&disk, &told, life, &mut random);
        let is_crash = random.random_bool(0.7);
        disk = match is_crash {
            true => disk.crash(random.random()),
            false => disk.kill(),
        };
        check_start(&disk, &told)?;
        if is_crash {
            told.lock().unwrap().learn(&disk)?;
        }
    }
    Ok(())
}

fn seeds(default: u64) -> u64 {
    std::env::var("FADER_POWER_SEEDS").map_or(default, |seeds| seeds.parse().unwrap())
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    let mut operations = u64::MAX;
    let mut cut = 0;
    while cut <= operations {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let told = Mutex::default();
        let disk = SimulatedDisk::new(None);
        disk.cut_power_at(cut);
        live(&disk, &told, 0, &mut random);
        if disk.has_power() {
            operations = disk.operations();
        }
        for seed in [cut, cut + 10_000] {
            let next = disk.crash(seed);
            let checked = check_start(&next, &told);
            checked.unwrap_or_else(|error| panic!("cut at {cut}, seed {seed}: {error}"));
        }
        check_start(&disk.kill(), &told).unwrap_or_else(|error| panic!("kill at {cut}: {error}"));
        cut += 1;
    }
    assert!(200 < cut, "only {cut} operations were cut");
}

#[test]
fn a_cut_at_random_operations_loses_nothing() {
    for seed in 0..seeds(300) {
        run_seed(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// It shows FOLDER-2 and FOLDER-3.
#[test]
fn mutants_any_one_sync_or_lock_left_out_is_noticed() {
    for guard in GUARDS {
        let noticed = (0..5_000).find_map(|seed| Some((seed, run_seed(seed, Some(guard)).err()?)));
        let Some((seed, error)) = noticed else {
            panic!("{guard:?} may be left out: no seed notices");
        };
        println!("caught: folder {guard:?}, seed {seed}: {error}");
        assert_eq!(run_seed(seed, None), Ok(()), "seed {seed} fails anyway");
    }
}

#[test]
fn a_put_that_fails_changes_nothing() {
    let disk = SimulatedDisk::new(None);
    let store = Arc::new(Store::open(disk.clone()).unwrap());
    let first = put(&store, "a/b", "first", &PutMode::Create).unwrap();
    let begin = disk.operations();
    let second = put(&store, "a/b", "second", &update(&first)).unwrap();
    let operations = u32::try_from(disk.operations() - begin).unwrap();
    for at in 0..operations {
        disk.fail(ErrorKind::StorageFull, at);
        let failed = put(&store, "a/b", "third", &update(&second)).unwrap_err();
        let kind = fader_cloud::object_error_kind(&failed, true);
        // The last three: the folder's sync.
        if kind == fader_cloud::ErrorKind::Ambiguous {
            assert_eq!(operations - 3, at, "{failed}");
            break;
        }
        assert!(
            failed.to_string().contains("nothing was changed"),
            "{failed}"
        );
        let found = get(&store, "a/b").unwrap();
        assert_eq!(found, Some(("second".to_owned(), second.clone())));
    }
}
