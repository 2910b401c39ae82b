//! The queues of a prefix by name: their settings. A process uses them for a minute; they stay
//! when a queue is deleted (rule BQUEUE-12).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::stream::StreamExt;
use object_store::PutMode;
use object_store::path::Path;

use super::guard::Guard;
use super::markers::{Markers, foreign};
use super::names::{Incarnation, Part, parse_incarnation, parse_part, parts_below};
use super::receiver::Receiver;
use super::sender::Sender;
use super::settings::{CACHED, Settings};
use super::store::{Put, Store};
use super::time::{GRAIN, drift};
use crate::error::{Error, ErrorKind, Result};
use crate::queues::{QueueSettings, check_name, check_visibility};

/// Changes of a settings object that others were faster than, at most.
const RACES_MAX: u32 = 16;
/// The queues of a prefix, as one process knows them.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) store: Store,
    known: Mutex<BTreeMap<String, Arc<Known>>>,
    pub(super) markers: Markers,
    /// Held while settings are read.
    reading: futures_util::lock::Mutex<()>,
}

/// A queue as its settings described it a little while ago.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) settings: Settings,
    /// The folder of its segments.
    pub(super) folder: Path,
    /// When the GET of its settings was sent.
    read_at: Duration,
    pub(super) receiver: Arc<Receiver>,
    pub(super) sender: Arc<Sender>,
}

impl Catalog {
    pub(super) fn new(store: Store) -> Self {
        Catalog {
            store,
            known: Mutex::default(),
            markers: Markers::new(
                "queues",
                |name| check_name(name).is_ok(),
                |key, bytes| Ok(Settings::decode(key, bytes)?.is_gone),
            ),
            reading: futures_util::lock::Mutex::new(()),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Known>>> {
        self.known
            .lock()
            .expect("nothing panics while it is locked")
    }

    fn settings_key(&self, queue: &str) -> Path {
        self.markers.key(&self.store, queue)
    }

    /// A queue by settings that are less than a minute old (BQUEUE-12).
    pub(super) async fn queue(&self, queue: &str) -> Result<Arc<Known>> {
        check_name(queue)?;
        if let Some(known) = self.fresh(queue) {
            return Ok(known);
        }
        let turn = self.reading.lock().await;
        if let Some(known) = self.fresh(queue) {
            return Ok(known);
        }
        let sent = self.store.now();
        let key = self.settings_key(queue);
        let found = self.store.get(&key).await?;
        drop(turn);
        let settings = found
            .map(|found| Settings::decode(key.as_ref(), &found.bytes))
            .transpose()?;
        match settings {
            Some(settings) if !settings.is_gone => Ok(self.note(queue, settings, sent)),
            _ => {
                self.known().remove(queue);
                let context = format!("there is no queue {queue:?}");
                Err(Error::new(ErrorKind::NotFound, context))
            }
        }
    }

    fn fresh(&self, queue: &str) -> Option<Arc<Known>> {
        let known = self.known().get(queue).cloned()?;
        let age = self.store.now().saturating_sub(known.read_at);
        (age + drift(age) < CACHED).then_some(known)
    }

    /// Notes settings that were asked for at `read_at`.
    fn note(&self, queue: &str, settings: Settings, read_at: Duration) -> Arc<Known> {
        let mut all = self.known();
        let before = all.get(queue).filter(|known| {
            known.settings.incarnation == settings.incarnation && known.settings == settings
        });
        let incarnation = match self.store.guards.has(Guard::QueueIncarnation) {
            true => settings.incarnation,
            false => Incarnation(0),
        };
        let folder = self.folder(queue, incarnation);
        let known = Arc::new(match before {
            Some(before) => Known {
                settings,
                folder,
                read_at: read_at.max(before.read_at),
                receiver: before.receiver.clone(),
                sender: before.sender.clone(),
            },
            None => Known {
                settings,
                folder: folder.clone(),
                read_at,
                receiver: Arc::new(Receiver::new(
                    &self.store,
                    folder,
                    incarnation,
                    settings.settings,
                )),
                sender: Arc::default(),
            },
        });
        all.insert(queue.to_owned(), known.clone());
        known
    }

    fn folder(&self, queue: &str, incarnation: Incarnation) -> Path {
        self.store
            .key(&["messages", queue, &incarnation.to_string()])
    }

    /// Objects of incarnations of a name that do not live: listed first, then the settings are
    /// read (BQUEUE-12).
    pub(super) async fn leftovers(&self, queue: &str) -> Result<Vec<Path>> {
        let key = self.settings_key(queue);
        let read = || async {
            let found = self.store.get(&key).await?;
            let settings = found.map(|found| Settings::decode(key.as_ref(), &found.bytes));
            Ok::<_, Error>(settings.transpose()?.filter(|settings| !settings.is_gone))
        };
        let early = match self.store.guards.has(Guard::ListBeforeSettings) {
            true => None,
            false => Some(read().await?),
        };
        let folder = self.store.key(&["messages", queue]);
        let mut keys = self.store.list(&folder);
        let mut listed = Vec::new();
        while let Some(meta) = keys.next().await {
            let meta = meta?;
            let parts = parts_below(&folder, &meta.location);
            let parsed = match parts.as_slice() {
                [incarnation, last] => parse_incarnation(incarnation)
                    .zip(parse_part(last, self.store.guards.has(Guard::StatesFirst))),
                _ => None,
            };
            match parsed {
                Some((incarnation, (_, part))) => listed.push((part, incarnation, meta.location)),
                None => return Err(foreign(&meta.location)),
            }
        }
        let living = match early {
            Some(early) => early,
            None => read().await?,
        };
        let is_dead = |incarnation: &Incarnation| match &living {
            _ if !self.store.guards.has(Guard::QueueIncarnation) => living.is_none(),
            Some(living) => living.incarnation != *incarnation,
            None => true,
        };
        let mut dead: Vec<(Part, Path)> = listed
            .into_iter()
            .filter(|(_, incarnation, _)| is_dead(incarnation))
            .map(|(part, _, key)| (part, key))
            .collect();
        // Segments before their states.
        dead.sort_by_key(|(part, _)| std::cmp::Reverse(*part));
        Ok(dead.into_iter().map(|(_, key)| key).collect())
    }

    /// Deletes what is left of dead incarnations of a name. The next sweep does what this one
    /// cannot.
    async fn sweep(&self, queue: &str) {
        if let Ok(keys) = self.leftovers(queue).await {
            let _ = self.store.delete_all(keys).await;
        }
    }

    /// Whether a name that was marked at this time of the store may be used again (BQUEUE-12).
    async fn rests(&self, marked: Duration) -> Option<Duration> {
        let until = marked + GRAIN + CACHED;
        let left = |store: Duration| until.checked_sub(store).filter(|left| !left.is_zero());
        if !self.store.guards.has(Guard::NameRests) {
            return None;
        }
        left(self.store.moment().store)?;
        self.store.learn_time().await;
        left(self.store.moment().store)
    }

    /// Creates a queue, or finds it with these settings.
    pub(super) async fn create(&self, queue: &str, settings: &QueueSettings) -> Result<()> {
        check_name(queue)?;
        check_visibility(settings.visibility)?;
        let key = self.settings_key(queue);
        let created = Settings {
            incarnation: Incarnation(self.store.runtime.random()),
            is_gone: false,
            settings: *settings,
        };
        let mut is_again = false;
        for attempt in 1..=RACES_MAX {
            let sent = self.store.now();
            let found = self.store.get(&key).await?;
            let mode = match found {
                None => PutMode::Create,
                Some(found) => {
                    let known = Settings::decode(key.as_ref(), &found.bytes)?;
                    if !known.is_gone && known.settings != *settings {
                        let context = format!("queue {queue:?} exists with other settings");
                        return Err(Error::new(ErrorKind::Precondition, context));
                    }
                    if !known.is_gone {
                        self.note(queue, known, sent);
                        if is_again {
                            self.sweep(queue).await;
                        }
                        return Ok(());
                    }
                    if let Some(left) = self.rests(found.modified).await {
                        let context = format!(
                            "queue {queue:?} was deleted less than a minute ago: create it again \
                             in {} s",
                            left.as_secs() + 1
                        );
                        let retry_after = Some(left);
                        return Err(Error::new(ErrorKind::Unavailable { retry_after }, context));
                    }
                    is_again = true;
                    PutMode::Update(found.version)
                }
            };
            match self.store.put(&key, created.encode(), mode).await? {
                Put::Landed(_) => {
                    self.note(queue, created, sent);
                    if is_again {
                        self.sweep(queue).await;
                    }
                    return Ok(());
                }
                // The next GET shows what became of it.
                Put::Refused | Put::Unknown(_) => self.store.look_pause(attempt).await,
            }
        }
        Err(raced(queue))
    }

    /// Marks a queue as gone, and deletes what is in it.
    pub(super) async fn delete(&self, queue: &str) -> Result<()> {
        check_name(queue)?;
        let key = self.settings_key(queue);
        let mut marking = None;
        for attempt in 1..=RACES_MAX {
            let known = match self.store.get(&key).await? {
                Some(found) => Some((Settings::decode(key.as_ref(), &found.bytes)?, found.version)),
                None => None,
            };
            let version = match known {
                Some((known, version)) if !known.is_gone => {
                    if marking.is_some_and(|marking| marking != known.incarnation) {
                        // Marked, and created again by another process.
                        return Ok(());
                    }
                    marking = Some(known.incarnation);
                    (known, version)
                }
                _ if marking.is_some() => break,
                _ => {
                    self.known().remove(queue);
                    let context = format!("there is no queue {queue:?}");
                    return Err(Error::new(ErrorKind::NotFound, context));
                }
            };
            let (known, version) = version;
            if !self.store.guards.has(Guard::SettingsStay) {
                self.store.delete_surely(&key).await?;
                break;
            }
            let marked = Settings {
                is_gone: true,
                ..known
            };
            let put = self
                .store
                .put(&key, marked.encode(), PutMode::Update(version));
            match put.await? {
                Put::Landed(_) => break,
                // The next GET shows what became of it.
                Put::Refused | Put::Unknown(_) if attempt < RACES_MAX => {
                    self.store.look_pause(attempt).await;
                }
                Put::Refused => return Err(raced(queue)),
                Put::Unknown(error) => return Err(error),
            }
        }
        let before = self.known().remove(queue);
        if let Some(before) = before {
            before.receiver.wake();
        }
        self.sweep(queue).await;
        Ok(())
    }
}

fn raced(queue: &str) -> Error {
    let context = format!("other processes changed queue {queue:?} again and again");
    Error::new(ErrorKind::Unavailable { retry_after: None }, context)
}
