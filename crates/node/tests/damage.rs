//! Random damage to a real data folder with domains and queues: each file kind, flips, truncations,
//! zeros and deletions. Each has one of these ends. The start is refused with file and reason; the
//! folder is mended; the damage has no effect. Or what it hit, and nothing else, is refused in
//! words. A wrong answer, a silent loss, a panic and a node that serves and then fails are
//! violations.
//!
//! `FADER_DAMAGE_SEEDS` says how many (`cargo xtask crash damage --seeds N`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fader_node::{Call, Health, Node, Settings};
use fader_services::ErrorCode;
use fader_services::catalog::{AccountId, KeyNature};
use fader_services::level::ConsistencyOptions;
use fader_services::policy::Principal;
use fader_services::request::Reply;
use fader_services::simpledb::{self, AttributePut, ItemPut};
use fader_services::sqs::command::{CreateQueue, PeekMessages, SendEntry, SendMessage};
use fader_services::sqs::{self, Caller, Command};

const SEEDS: u64 = 40;
const ITEMS: usize = 48;
const MESSAGES: usize = 24;

/// Numbers that follow from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }
}

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

fn settings(data: &Path, retains: bool) -> Settings {
    Settings {
        segment_bytes: 16 << 10,
        log_retain_bytes: if retains { 256 << 20 } else { 0 },
        ..Settings::new(data.to_owned())
    }
}

async fn ask(
    node: &Node,
    request: impl Into<fader_services::request::Request>,
) -> Result<Reply, String> {
    let call = Call::new(&account(), request, ConsistencyOptions::default());
    let (outcome, _) = node.call(call).await;
    outcome.map_err(|refusal| format!("{refusal:?}"))
}

async fn put(node: &Node, item: usize, value: &str) -> Result<(), String> {
    let attribute = |name: &str, value: &str| AttributePut {
        name: Some(name.to_owned()),
        value: Some(value.to_owned()),
        replace: true,
    };
    let request = simpledb::Request::PutAttributes {
        domain: "domain".to_owned(),
        put: ItemPut {
            item: Some(format!("item-{item:02}")),
            attributes: vec![attribute("a", value), attribute("text", &"x".repeat(300))],
        },
        expected: Vec::new(),
    };
    ask(node, request).await.map(drop)
}

async fn queue(node: &Node, command: Command) -> Result<Reply, String> {
    let request = sqs::Request {
        caller: Caller::of(Principal::Account(account().0)),
        region: "us-east-1".to_owned(),
        seed: 7,
        command,
    };
    ask(node, request).await
}

async fn send(node: &Node, number: usize) -> Result<(), String> {
    let entry = SendEntry {
        id: String::new(),
        body: Some(format!("message {number} {}", "y".repeat(300))),
        delay_seconds: None,
        attributes: Vec::new(),
        system_attributes: Vec::new(),
        deduplication_id: None,
        group_id: None,
    };
    let send = SendMessage {
        queue: "jobs".to_owned(),
        is_batch: false,
        entries: vec![entry],
    };
    queue(node, Command::SendMessage(send)).await.map(drop)
}

/// What a folder has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    items: BTreeMap<usize, String>,
    messages: BTreeSet<String>,
}

/// A folder that two incarnations have written, and one that was killed where it is not closed.
async fn written(data: &Path, (retains, is_closed): (bool, bool)) -> Content {
    let image = data.with_extension("image");
    let mut content = Content::default();
    for incarnation in 0..3 {
        let node = Node::open(settings(data, retains)).unwrap().0;
        if incarnation == 0 {
            let create = simpledb::Request::CreateDomain {
                domain: "domain".to_owned(),
                mode: None,
                preference: None,
            };
            ask(&node, create).await.unwrap();
            let create = CreateQueue {
                queue: "jobs".to_owned(),
                attributes: Vec::new(),
                tags: Vec::new(),
                mode: None,
            };
            queue(&node, Command::CreateQueue(create)).await.unwrap();
            let key = node
                .create_key(&account(), None, "", KeyNature::default())
                .await;
            key.unwrap();
        }
        for item in (0..ITEMS).filter(|item| item % 3 != incarnation) {
            let value = format!("{incarnation}");
            put(&node, item, &value).await.unwrap();
            content.items.insert(item, value);
        }
        for number in (0..MESSAGES).filter(|number| number % 3 == incarnation) {
            send(&node, number).await.unwrap();
            content
                .messages
                .insert(format!("message {number} {}", "y".repeat(300)));
        }
        if incarnation == 2 && !is_closed {
            copy(data, &image);
        }
        node.close().await;
    }
    if !is_closed {
        std::fs::remove_dir_all(data).unwrap();
        std::fs::rename(&image, data).unwrap();
    }
    content
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy(&entry.path(), &place),
            _ => drop(std::fs::copy(entry.path(), place).unwrap()),
        }
    }
}

/// All files and folders in a folder, with what kind each is of.
fn files(folder: &Path, found: &mut BTreeMap<String, Vec<PathBuf>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let parent = folder.file_name().unwrap().to_str().unwrap();
        let kind = match name.as_str() {
            name if path.is_dir() => format!("folder {name}"),
            name if name.ends_with(".log") => "segment".to_owned(),
            _ if parent == "tables" => "table".to_owned(),
            name if name.starts_with('v') => "list".to_owned(),
            name => name.to_owned(),
        };
        if path.is_dir() {
            files(&path, found);
        }
        found.entry(kind).or_default().push(path);
    }
}

/// Damages something; says what and how.
fn damage(data: &Path, numbers: &mut Numbers) -> (PathBuf, String) {
    let mut found = BTreeMap::new();
    files(data, &mut found);
    let kinds: Vec<&Vec<PathBuf>> = found.values().collect();
    let kind = kinds[numbers.below(kinds.len())];
    let path = kind[numbers.below(kind.len())].clone();
    if path.is_dir() {
        std::fs::remove_dir_all(&path).unwrap();
        return (path, "deleted".to_owned());
    }
    let mut file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let size = file.metadata().unwrap().len() as usize;
    let at = numbers.below(size);
    let how = match numbers.below(5) {
        0 => {
            std::fs::remove_file(&path).unwrap();
            "deleted".to_owned()
        }
        1 => {
            file.set_len(at as u64).unwrap();
            format!("cut off at {at}")
        }
        2 => {
            file.set_len(at as u64).unwrap();
            file.set_len(size as u64).unwrap();
            format!("zeros from {at}")
        }
        _ if size == 0 => "empty as before".to_owned(),
        _ => {
            let mut byte = [0];
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.read_exact(&mut byte).unwrap();
            byte[0] ^= 1 << numbers.below(8);
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(&byte).unwrap();
            format!("a bit of {at} flipped")
        }
    };
    (path, how)
}

/// What came of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Refused,
    Whole,
    Partly,
}

async fn judge(
    data: &Path,
    retains: bool,
    hit: &Path,
    content: &Content,
) -> Result<Verdict, String> {
    let opened = tokio::task::spawn_blocking({
        let settings = settings(data, retains);
        move || Node::open(settings)
    });
    let node = match opened.await.map_err(|_| "the start panicked".to_owned())? {
        Err(error) if [ErrorCode::DataDamaged, ErrorCode::IoFailed].contains(&error.code) => {
            return names(&error.to_string(), data, hit);
        }
        Err(error) => return Err(format!("refused for another reason: {error}")),
        Ok((node, _)) => node,
    };
    let mut content = content.clone();
    let mut verdict = read(&node, &content).await?;
    for item in 0..ITEMS {
        match put(&node, item, "new").await {
            Ok(()) => drop(content.items.insert(item, "new".to_owned())),
            Err(words) => {
                told(&words, retains)?;
                verdict = Verdict::Partly;
            }
        }
    }
    if let Health::Failed(reason) = node.health() {
        return Err(format!("it served, and then failed: {reason}"));
    }
    verdict = verdict.max(read(&node, &content).await?);
    node.close().await;
    let settings = settings(data, retains);
    let (node, _) = Node::open(settings).map_err(|error| format!("the next start: {error}"))?;
    verdict = verdict.max(read(&node, &content).await?);
    node.close().await;
    match verdict {
        Verdict::Partly if retains => Err("the log has everything, and it is not used".to_owned()),
        verdict => Ok(verdict),
    }
}

/// A refusal names what was damaged, or the folder that it is in.
fn names(words: &str, data: &Path, hit: &Path) -> Result<Verdict, String> {
    let mut places = hit.ancestors().take_while(|place| *place != data);
    match places.any(|place| words.contains(place.to_str().unwrap())) {
        true => Ok(Verdict::Refused),
        false => Err(format!("refused, and the file is not named: {words}")),
    }
}

/// A refusal of a request says that something is damaged.
fn told(words: &str, retains: bool) -> Result<(), String> {
    let is_told = ["damaged", "engine", "Checksum"];
    match is_told.iter().any(|word| words.contains(word)) && !retains {
        true => Ok(()),
        false => Err(format!("a request is refused: {words}")),
    }
}

/// Reads everything, one by one: each is what was written, or is refused as damaged.
async fn read(node: &Node, content: &Content) -> Result<Verdict, String> {
    let mut verdict = Verdict::Whole;
    for (item, value) in &content.items {
        let request = simpledb::Request::GetAttributes {
            domain: "domain".to_owned(),
            item: format!("item-{item:02}"),
            names: vec!["a".to_owned()],
            consistent: true,
        };
        match ask(node, request).await {
            Ok(Reply::SimpleDb(answered)) => {
                let simpledb::Reply::Attributes(pairs) = answered.reply else {
                    return Err("attributes are asked".to_owned());
                };
                let values: Vec<_> = pairs.iter().map(|pair| pair.value.to_vec()).collect();
                if values != [value.as_bytes()] {
                    return Err(format!("item {item} is {values:?}, not {value}"));
                }
            }
            Ok(other) => return Err(format!("{other:?}")),
            Err(words) => {
                told(&words, false)?;
                verdict = Verdict::Partly;
            }
        }
    }
    let select = simpledb::Request::Select {
        expression: "select itemName() from domain where a > '' limit 2500".to_owned(),
        next_token: None,
        consistent: true,
    };
    match ask(node, select).await {
        Ok(Reply::SimpleDb(answered)) => {
            let simpledb::Reply::Items { items, .. } = answered.reply else {
                return Err("items are asked".to_owned());
            };
            if items.len() != content.items.len() {
                return Err(format!("{} items are found by the index", items.len()));
            }
        }
        Ok(other) => return Err(format!("{other:?}")),
        Err(words) => {
            told(&words, false)?;
            verdict = Verdict::Partly;
        }
    }
    match peek(node).await {
        Ok(messages) if messages == content.messages => Ok(verdict),
        Ok(messages) => Err(format!("{} messages are in the queue", messages.len())),
        Err(words) => {
            told(&words, false)?;
            Ok(Verdict::Partly)
        }
    }
}

/// The bodies of all messages, which are as many bodies.
async fn peek(node: &Node) -> Result<BTreeSet<String>, String> {
    let mut bodies = BTreeSet::new();
    for after in (0..=MESSAGES as u64).step_by(5) {
        let peek = PeekMessages {
            queue: "jobs".to_owned(),
            after,
            max_messages: Some(10),
        };
        match queue(node, Command::PeekMessages(peek)).await? {
            Reply::Sqs(sqs::Reply::Peeked(peeked)) => {
                bodies.extend(peeked.messages.into_iter().map(|message| message.body));
            }
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(bodies)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_refused_mended_or_without_effect() {
    let seeds = std::env::var("FADER_DAMAGE_SEEDS");
    let seeds: u64 = seeds.map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut bases = Vec::new();
    for (at, how) in [(true, true), (true, false), (false, true), (false, false)]
        .into_iter()
        .enumerate()
    {
        let base = folder.path().join(format!("base-{at}"));
        let content = written(&base, how).await;
        bases.push((base, how.0, content));
    }
    let mut verdicts: BTreeMap<Verdict, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    for seed in 0..seeds {
        let mut numbers = Numbers(seed);
        let (base, retains, content) = &bases[numbers.below(bases.len())];
        // Each has a folder of its own: a node that failed may still be ending.
        let data = folder.path().join(format!("data-{seed}"));
        copy(base, &data);
        let (hit, how) = damage(&data, &mut numbers);
        match judge(&data, *retains, &hit, content).await {
            Ok(verdict) => *verdicts.entry(verdict).or_default() += 1,
            Err(violation) => {
                let hit = hit.strip_prefix(&data).unwrap().display();
                violations.push(format!(
                    "seed {seed}: {hit}, {how}, log kept {retains}: {violation}"
                ));
            }
        }
        drop(std::fs::remove_dir_all(&data));
    }
    println!(
        "{seeds} damages: {verdicts:?}, {} violations",
        violations.len()
    );
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// The log does not reach back, so the engine cannot be made anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_damaged_block_are_refused_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let content = written(&data, (false, true)).await;
    let tables = std::fs::read_dir(data.join("engine/registers/tables")).unwrap();
    for table in tables {
        let table = table.unwrap().path();
        let mut bytes = std::fs::read(&table).unwrap();
        let middle = bytes.len() / 3;
        bytes[middle] ^= 4;
        std::fs::write(&table, bytes).unwrap();
    }

    for _start in 0..2 {
        let node = Node::open(settings(&data, false)).unwrap().0;
        let (mut taken, mut refused) = (0, 0);
        for item in 0..ITEMS {
            match put(&node, item, "new").await {
                Ok(()) => taken += 1,
                Err(words) => {
                    told(&words, false).unwrap();
                    refused += 1;
                }
            }
        }
        assert!(0 < taken && 0 < refused, "{taken} taken, {refused} refused");
        assert_eq!(node.health(), Health::Serving);
        let mut shown = 0;
        for item in content.items.keys() {
            let request = simpledb::Request::GetAttributes {
                domain: "domain".to_owned(),
                item: format!("item-{item:02}"),
                names: vec!["a".to_owned()],
                consistent: true,
            };
            shown += usize::from(ask(&node, request).await.is_ok());
        }
        assert_eq!(
            shown, taken,
            "what can be written can be read, and nothing else"
        );
        node.close().await;
    }
}
