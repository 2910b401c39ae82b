//! The work of a simulated client: transactions of all kinds, until faults end.

use std::sync::Arc;
use std::time::Duration;

use fader_cloud::{Clock, Cloud, ErrorKind, Result};
use fader_database::{Database, IndexRange, IndexValue, Level, Options};

use super::history::{Deed, Fate, Record, Step, Transaction};

/// The collection of all runs.
pub(super) const COLLECTION: &str = "records";
/// Bytes of a value of which six outgrow a message.
const LARGE: usize = 50_000;
/// The index of the values' groups, and their field.
pub(super) const INDEX: &str = "group";
/// Groups of values.
pub(super) const GROUPS: u64 = 3;
/// What clients do most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Keys that all clients write.
    pub(super) keys: u64,
    /// One Atomic transaction of so many outgrows a message.
    pub(super) large_in: u64,
    /// Of ten writes so many are puts.
    pub(super) puts: u64,
    /// Of ten writes so many are updates; the others are deletes.
    pub(super) updates: u64,
    /// The longest pause between two calls, in milliseconds.
    pub(super) pause_ms: u64,
}

impl Default for Habits {
    fn default() -> Self {
        Habits {
            keys: 12,
            large_in: 20,
            puts: 5,
            updates: 3,
            pause_ms: 1_500,
        }
    }
}

/// A client.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) cloud: Cloud,
    pub(super) options: Options,
    pub(super) record: Record,
    /// True time.
    pub(super) truth: Arc<dyn Clock>,
    /// When work ends.
    pub(super) until: Duration,
    /// Levels that it writes at.
    pub(super) levels: Vec<Level>,
    /// Whether clients create the index.
    pub(super) builds: bool,
    pub(super) habits: Habits,
}

/// A value: a JSON object with its group.
fn value(number: usize, at: u64, group: u64, padding: usize) -> String {
    format!(
        r#"{{"{INDEX}":{group},"value":"{number}.{at}{:padding$}"}}"#,
        ""
    )
}

/// The group of a value.
pub(super) fn group_of(value: &str) -> Option<u64> {
    let rest = value.strip_prefix(&format!(r#"{{"{INDEX}":"#))?;
    rest.split_once(',')?.0.parse().ok()
}

impl Client {
    /// Starts its work.
    pub(super) fn start(&self) {
        drop(self.cloud.runtime.spawn(self.clone().live()));
    }

    fn below(&self, count: u64) -> u64 {
        self.cloud.runtime.random() % count
    }

    fn is_over(&self) -> bool {
        self.until <= self.truth.monotonic()
    }

    async fn live(self) {
        while !self.is_over() {
            let opened = Database::open(self.cloud.clone(), self.options.clone()).await;
            let Ok(database) = opened else {
                self.cloud
                    .runtime
                    .clock
                    .sleep(Duration::from_millis(100))
                    .await;
                continue;
            };
            let session = {
                let mut record = self.record.open();
                record.sessions += 1;
                record.sessions
            };
            // Some sessions end and others begin without a crash.
            let length = 1 + self.below(60);
            for _ in 0..length {
                if self.is_over() {
                    break;
                }
                self.record.open().calls += 1;
                match self.below(12) {
                    0..=5 => self.write(&database, session).await,
                    6..=8 => self.read(&database, session).await,
                    9 => drop(database.settle().await),
                    10 if self.builds && self.below(4) == 0 => {
                        let created = database.create_index(COLLECTION, INDEX, INDEX, &|_| ());
                        drop(created.await);
                    }
                    _ => self.look_up(&database, session).await,
                }
                let pause = Duration::from_millis(self.below(self.habits.pause_ms));
                self.cloud.runtime.clock.sleep(pause).await;
            }
            drop(database.close().await);
        }
    }

    async fn write(&self, database: &Database, session: u64) {
        let level = self.levels[self.below(self.levels.len() as u64) as usize];
        let number = self.record.open().transactions.len();
        let mut deeds = Vec::new();
        // Some transactions outgrow a message.
        let is_large = level == Level::Atomic && self.below(self.habits.large_in) == 0;
        let (count, padding) = match is_large {
            true => (6, LARGE),
            false => (1 + self.below(3), 0),
        };
        for at in 0..count {
            let key = match is_large {
                true => format!("k{at:02}"),
                false => format!("k{:02}", self.below(self.habits.keys)),
            };
            let value = value(number, at, self.below(GROUPS), padding);
            let (draw, puts) = (self.below(10), self.habits.puts);
            let deed = if draw < puts {
                Deed::Put(value)
            } else if draw < puts + self.habits.updates {
                Deed::Update(value)
            } else {
                Deed::Delete
            };
            if deeds.iter().all(|(other, _)| *other != key) {
                deeds.push((key, deed));
            }
        }
        // Two keys that no other transaction writes, far apart: both are there, or none.
        for side in ["a", "z"] {
            deeds.push((format!("{side}{number:06}"), Deed::Put(number.to_string())));
        }
        let transaction = Transaction {
            level,
            deeds: deeds.clone(),
            fate: Fate::Unknown,
        };
        // Another task may have recorded one meanwhile: the number is taken with the record.
        let number = {
            let mut record = self.record.open();
            debug_assert_eq!(record.transactions.len(), number);
            record.transactions.push(transaction);
            number
        };
        let committed = async {
            let mut transaction = database.begin(level);
            for (key, deed) in &deeds {
                let key = key.as_bytes();
                match deed {
                    Deed::Put(value) => transaction.put(COLLECTION, key, value.as_bytes()).await?,
                    Deed::Update(value) => {
                        transaction
                            .update(COLLECTION, key, value.as_bytes())
                            .await?;
                    }
                    Deed::Delete => transaction.delete(COLLECTION, key).await?,
                }
            }
            transaction.commit().await
        };
        let outcome: Result<_> = committed.await;
        let mut record = self.record.open();
        record.transactions[number].fate = match outcome {
            Ok(committed) => Fate::Done(committed.stamp),
            Err(error) if error.kind == ErrorKind::Ambiguous => Fate::Unknown,
            Err(_) => Fate::Refused,
        };
        if let Fate::Done(_) = record.transactions[number].fate {
            record.steps.push((session, Step::Wrote(number)));
        }
    }

    /// What a lookup finds was read: it has the group, and no session reads backwards.
    async fn look_up(&self, database: &Database, session: u64) {
        let mut transaction = database.begin(Level::Monotonic);
        let group = self.below(GROUPS);
        let range = IndexRange::Is(IndexValue::Number(group as f64));
        let hits = transaction.lookup(COLLECTION, INDEX, &range, None, 100);
        let Ok(hits) = hits.await else {
            return;
        };
        let mut record = self.record.open();
        for hit in hits {
            let [key, value] = [&hit.key, &hit.record];
            let [key, value] =
                [key, value].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            // A hit of another group shows as a value that no write has.
            let value = match group_of(&value) == Some(group) {
                true => value,
                false => format!("not of group {group}: {value}"),
            };
            record.steps.push((session, Step::Read(key, Some(value))));
        }
    }

    async fn read(&self, database: &Database, session: u64) {
        let mut transaction = database.begin(Level::Monotonic);
        let keys = self.habits.keys;
        let key = format!("k{:02}", self.below(keys));
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let seen: Result<Vec<(String, Option<String>)>> = if self.below(4) == 0 {
            let until = Some(&b"l"[..]);
            let range = transaction
                .range(COLLECTION, key.as_bytes(), until, 100)
                .await;
            range.map(|records| {
                let found: Vec<(String, String)> = records
                    .iter()
                    .map(|(key, value)| (text(key), text(value)))
                    .collect();
                let value = |key: &str| found.iter().find(|(other, _)| other == key);
                let keys = (0..keys).map(|number| format!("k{number:02}"));
                let keys = keys.filter(|other| key <= *other);
                keys.map(|key| (key.clone(), value(&key).map(|(_, value)| value.clone())))
                    .collect()
            })
        } else {
            let value = transaction.get(COLLECTION, key.as_bytes()).await;
            value.map(|value| vec![(key, value.as_deref().map(text))])
        };
        let Ok(seen) = seen else {
            return;
        };
        let mut record = self.record.open();
        for (key, value) in seen {
            record.steps.push((session, Step::Read(key, value)));
        }
    }
}
