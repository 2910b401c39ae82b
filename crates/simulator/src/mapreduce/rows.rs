//! What the processes of a run ask of the rows of jobs, as a log for the checks of crate `history`.
//!
//! A register is the `winner` of a row. Its log has the puts of winners and the strong reads of the
//! row. A row is over when a deletion of its domain is asked for. What ends later shows nothing.
//!
//! A value of `beat` that is put without a condition was never put into its row before. A put on a
//! condition may repeat its own value.
//!
//! Deliberately absent: eventual reads, and the order of beats.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use fader_cloud::{
    Attribute, Clock, Cloud, DomainMetadata, Domains, ErrorKind, Expected, ItemDelete, ItemPut,
    Page, ReadConsistency, Result,
};
use fader_history::object::{self, Reply, Value, Verb};
use fader_history::{Moment, Outcome};

use super::checks::broken;
use crate::cloud::{Failure, strong_call};

/// The attribute that is judged.
const WINNER: &str = "winner";
/// The attribute whose values do not recur.
const BEAT: &str = "beat";

/// The log as all processes share it.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// True time.
    truth: Arc<dyn Clock>,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    log: object::Log,
    /// How often each winner of a row was put.
    puts: BTreeMap<(String, String), u32>,
    /// Beats that may be in a row, now or later.
    beats: BTreeSet<(String, String)>,
    /// The first beat that was put again without a condition.
    recurring: Option<String>,
    /// Domains that a deletion was asked for.
    over: BTreeSet<String>,
    /// Moments until now: no two are the same.
    moments: u64,
}

/// Domains that record calls, and change none.
#[derive(Debug)]
struct Recorded {
    domains: Arc<dyn Domains>,
    record: Record,
}

impl Record {
    pub(super) fn new(truth: Arc<dyn Clock>) -> Self {
        Record {
            truth,
            known: Arc::default(),
        }
    }

    /// The same cloud, with calls on its domains recorded.
    pub(super) fn of(&self, mut cloud: Cloud) -> Cloud {
        cloud.domains = Arc::new(Recorded {
            domains: cloud.domains.clone(),
            record: self.clone(),
        });
        cloud
    }

    /// All calls until now.
    pub(super) fn log(&self) -> object::Log {
        self.open().log.clone()
    }

    /// No beat was put again without a condition.
    pub(super) fn beats_are_new(&self) -> std::result::Result<(), Failure> {
        match &self.open().recurring {
            None => Ok(()),
            Some(beat) => Err(broken("beats", format!("put again: {beat}"))),
        }
    }

    fn open(&self) -> MutexGuard<'_, Known> {
        self.known
            .lock()
            .expect("no process panics while it records")
    }

    fn moment(&self) -> Moment {
        let mut known = self.open();
        known.moments += 1;
        Moment {
            nanos: self.truth.monotonic().as_nanos() as u64,
            step: known.moments,
        }
    }

    /// A put of a winner begins: its place in the log.
    fn begin(&self, domain: &str, put: &ItemPut, condition: Option<&Expected>) -> Option<usize> {
        let mut attributes = put.attributes.iter();
        let winner = &attributes.find(|put| put.name == WINNER)?.value;
        let called = self.moment();
        let mut known = self.open();
        if known.over.contains(domain) {
            return None;
        }
        let to = Value::from(winner.as_str());
        let verb = match condition {
            Some(Expected::Absent(name)) if name == WINNER => Verb::Swap {
                from: Value::None,
                to,
            },
            _ => Verb::Write(to),
        };
        let row = key(domain, &put.name);
        let attempt = known.puts.entry((row.clone(), winner.clone())).or_default();
        *attempt += 1;
        let attempt = *attempt;
        known.log.operations.push(object::Operation {
            attempt,
            ..strong_call(&row, verb, called)
        });
        Some(known.log.operations.len() - 1)
    }

    /// A put of a winner ends.
    fn end(&self, at: usize, domain: &str, answer: &Result<()>) {
        let ended = self.moment();
        let mut known = self.open();
        if known.over.contains(domain) {
            return;
        }
        let put = &mut known.log.operations[at];
        let is_conditional = matches!(put.action.verb, Verb::Swap { .. });
        let outcome = match answer.as_ref().map_err(|error| &error.kind) {
            Ok(()) => Outcome::Done(Reply::default()),
            Err(ErrorKind::Precondition) if is_conditional => Outcome::Done(Reply::unmet()),
            Err(ErrorKind::Ambiguous) => Outcome::Unknown,
            Err(kind) => Outcome::Refused(format!("{kind:?}").into()),
        };
        put.end = Some((ended, outcome));
    }

    /// A put ends. Its beat, if it has one, may be in the row unless it was refused.
    fn beat(&self, domain: &str, put: &ItemPut, condition: Option<&Expected>, answer: &Result<()>) {
        let may_land = match answer {
            Ok(()) => true,
            Err(error) => error.kind == ErrorKind::Ambiguous,
        };
        let beat = put.attributes.iter().find(|put| put.name == BEAT);
        let Some(beat) = beat.filter(|_| may_land) else {
            return;
        };
        let row = key(domain, &put.name);
        let mut known = self.open();
        let is_new = known.beats.insert((row.clone(), beat.value.clone()));
        if !is_new && condition.is_none() {
            let recurring = || format!("{row}: {}", beat.value);
            known.recurring.get_or_insert_with(recurring);
        }
    }

    /// A strong read of a domain ends: the rows that it showed, and how the names begin of those
    /// that it would have shown, too.
    fn read<'a>(
        &self,
        called: Moment,
        domain: &str,
        shown: impl Iterator<Item = (&'a str, &'a [Attribute])>,
        others: Option<&str>,
    ) {
        let ended = self.moment();
        let mut known = self.open();
        if known.over.contains(domain) {
            return;
        }
        let mut winners: BTreeMap<String, Value> = BTreeMap::new();
        if let Some(others) = others {
            let others = key(domain, others);
            let rows = known.puts.keys().map(|(row, _)| row);
            let rows = rows.filter(|row| row.starts_with(&others));
            winners.extend(rows.map(|row| (row.clone(), Value::None)));
        }
        winners.extend(shown.map(|(row, attributes)| (key(domain, row), winner(attributes))));
        let reads = winners.into_iter().map(|(row, winner)| object::Operation {
            end: Some((ended, Outcome::Done(Reply::shows(winner)))),
            ..strong_call(&row, Verb::Read, called)
        });
        known.log.operations.extend(reads);
    }
}

fn key(domain: &str, row: &str) -> String {
    format!("{domain}/{row}")
}

/// What a row says; a list if it has several winners.
fn winner(attributes: &[Attribute]) -> Value {
    let winners = attributes.iter().filter(|found| found.name == WINNER);
    let mut winners: Vec<Value> = winners
        .map(|found| Value::from(found.value.as_str()))
        .collect();
    match winners.len() {
        0 | 1 => winners.pop().unwrap_or_default(),
        _ => Value::List(winners),
    }
}

/// The domain of a Select of a phase's rows, and how their names begin.
fn selected(expression: &str) -> Option<(&str, &str)> {
    let (domain, rest) = expression
        .strip_prefix("select * from `")?
        .split_once("` where itemName() like '")?;
    let (names, _) = rest.split_once("%' limit ")?;
    Some((domain, names))
}

#[async_trait]
impl Domains for Recorded {
    async fn create(&self, domain: &str) -> Result<()> {
        self.domains.create(domain).await
    }

    async fn delete(&self, domain: &str) -> Result<()> {
        self.record.open().over.insert(domain.to_owned());
        self.domains.delete(domain).await
    }

    async fn list(&self) -> Result<Vec<String>> {
        self.domains.list().await
    }

    async fn metadata(&self, domain: &str) -> Result<DomainMetadata> {
        self.domains.metadata(domain).await
    }

    async fn put(&self, domain: &str, put: &ItemPut, condition: Option<&Expected>) -> Result<()> {
        let at = self.record.begin(domain, put, condition);
        let answer = self.domains.put(domain, put, condition).await;
        if let Some(at) = at {
            self.record.end(at, domain, &answer);
        }
        self.record.beat(domain, put, condition, &answer);
        answer
    }

    async fn put_batch(&self, domain: &str, puts: &[ItemPut]) -> Result<()> {
        self.domains.put_batch(domain, puts).await
    }

    async fn remove(
        &self,
        domain: &str,
        delete: &ItemDelete,
        condition: Option<&Expected>,
    ) -> Result<()> {
        self.domains.remove(domain, delete, condition).await
    }

    async fn remove_batch(&self, domain: &str, deletes: &[ItemDelete]) -> Result<()> {
        self.domains.remove_batch(domain, deletes).await
    }

    async fn get(
        &self,
        domain: &str,
        item: &str,
        names: &[String],
        reading: ReadConsistency,
    ) -> Result<Vec<Attribute>> {
        let called = self.record.moment();
        let found = self.domains.get(domain, item, names, reading).await?;
        if reading == ReadConsistency::Strong && names.is_empty() {
            let shown = [(item, &found[..])].into_iter();
            self.record.read(called, domain, shown, None);
        }
        Ok(found)
    }

    async fn select(
        &self,
        expression: &str,
        next_token: Option<&str>,
        reading: ReadConsistency,
    ) -> Result<Page> {
        let called = self.record.moment();
        let page = self.domains.select(expression, next_token, reading).await?;
        if reading == ReadConsistency::Strong {
            let (domain, names) = selected(expression).expect("a Select of a phase's rows");
            let is_whole = next_token.is_none() && page.next_token.is_none();
            let items = page.items.iter();
            let shown = items.map(|item| (item.name.as_str(), &item.attributes[..]));
            let others = Some(names).filter(|_| is_whole);
            self.record.read(called, domain, shown, others);
        }
        Ok(page)
    }
}
