//! Carries what a [`Watch`] asks for to a server: for the watcher of a process, and for operators'
//! commands.

use std::sync::Arc;
use std::time::Instant;

use fader_chain::membership::{
    Ask, Reading, Seen, SessionRecord, Told, Trouble as Unseen, Watch, further,
};
use fader_chain::placement::layout::Layout;
use fader_chain::{ChainId, Configuration, Progress, Version};
use fader_zookeeper::{Changed, EnsembleClient, EnsembleError, Znode};

use super::TRIES;
use super::paths::{chain_path, disk_path, layout_path};
use super::record::{ClusterRecord, Content, DiskRecord};
use crate::coordinator::Outage;

/// One look at a cluster.
pub(super) struct Looker<'a> {
    /// The znode below which everything is.
    pub(super) root: &'a str,
    pub(super) asker: &'a mut EnsembleClient,
    pub(super) watch: &'a mut Watch,
    /// When the first look of `watch` began.
    pub(super) started: Instant,
    /// The greatest version that this process speaks.
    pub(super) speaks: Version,
    /// Whether the next change ends [`EnsembleClient::wait`]. Then what was read is read again when
    /// its watch fired, or the connection is another one (I24). The record of the cluster and the
    /// sessions are read each time: so a server answers.
    pub(super) is_told: bool,
    /// What was read last, where a look goes on with that: a znode that someone edited or removed
    /// stops nothing that it is not about.
    pub(super) last: Option<LastRead>,
    /// Whether no watch fired since `last` was read: layout and configurations are the same.
    pub(super) is_same: bool,
    /// Which znodes are so, in words.
    pub(super) damage: Vec<String>,
}

/// What was read last.
pub(super) struct LastRead {
    pub(super) cluster: Arc<ClusterRecord>,
    pub(super) layout: Arc<Layout>,
}

/// What a look showed.
pub(super) struct Looked {
    /// What the cluster was made with, and its version.
    pub(super) cluster: ClusterRecord,
    /// The nodes, and where chains are to be.
    pub(super) layout: Arc<Layout>,
    /// Configurations and sessions.
    pub(super) reading: Reading,
    /// The znodes that are not what Fader wrote, in words: of those it shows what was read last.
    pub(super) damage: Vec<String>,
}

impl Looker<'_> {
    /// Reads everything, and ends sessions that are over. `known` is the newest epoch of a chain
    /// that is known.
    pub(super) fn look(mut self, known: impl Fn(ChainId) -> u64) -> Result<Looked, WatchError> {
        self.watch.begin(self.started.elapsed());
        let (mut cluster, mut layout) = (None::<ClusterRecord>, None::<Arc<Layout>>);
        let last = self.last.as_ref().filter(|_| self.is_same);
        let same_layout = last.map(|last| last.layout.clone());
        while let Some(ask) = self.watch.ask().cloned() {
            let told = match ask {
                Ask::Cluster => {
                    let read = self.cluster();
                    let kept = |last: &LastRead| ClusterRecord::clone(&last.cluster);
                    let read = cluster.insert(self.or_last(read, kept)?);
                    Told::Cluster(read.version)
                }
                Ask::Layout => {
                    let read = match &same_layout {
                        Some(same) => same.clone(),
                        None => {
                            let founded = cluster.as_ref().map(ClusterRecord::founded);
                            let read = self.layout(founded.unwrap_or_default()).map(Arc::new);
                            self.or_last(read, |last| last.layout.clone())?
                        }
                    };
                    let read = layout.insert(read);
                    Told::Layout(read.chains.keys().copied().collect())
                }
                // No news.
                Ask::Configuration(_) if same_layout.is_some() => Told::Configuration(None, 0),
                Ask::Configuration(chain) => {
                    let known = known(chain);
                    let read = self.configuration(chain, known);
                    let read = read.map(|read| (read.map(Arc::new), known));
                    // No news.
                    let (read, known) = self.or_last(read, |_| (None, 0))?;
                    Told::Configuration(read, known)
                }
                Ask::Sessions => Told::Sessions(self.sessions()?),
                Ask::Session(name) => Told::Session(self.session(&name)?),
                Ask::Note { disk, progress } => {
                    let version = cluster.as_ref().map_or(Version::OLDEST, |it| it.version);
                    let path = disk_path(self.root, disk);
                    note_end(self.asker, &path, progress, version)?;
                    Told::Noted
                }
                Ask::End { name, version } => {
                    let path = format!("{}/sessions/{name}", self.root);
                    match self.asker.delete(&path, version)? {
                        Changed::Stale => Told::Outlived,
                        Changed::Done | Changed::Missing => Told::Ended,
                    }
                }
            };
            let told = self.watch.on_told(self.started.elapsed(), told);
            told.map_err(|unseen| self.trouble(unseen))?;
        }
        let reading = self.watch.end(self.started.elapsed());
        let reading = reading.map_err(|unseen| self.trouble(unseen))?;
        match (cluster, layout) {
            (Some(cluster), Some(layout)) => Ok(Looked {
                cluster,
                layout,
                reading,
                damage: self.damage,
            }),
            _ => Err(self.trouble(Unseen::Unasked)),
        }
    }

    /// What was read; else what was read last, if the znode is damaged.
    fn or_last<T>(
        &mut self,
        read: Result<T, WatchError>,
        kept: impl FnOnce(&LastRead) -> T,
    ) -> Result<T, WatchError> {
        match (read, &self.last) {
            (Err(WatchError::Damaged(why)), Some(last)) => {
                self.damage.push(why);
                Ok(kept(last))
            }
            (read, _) => read,
        }
    }

    /// The record of the cluster.
    fn cluster(&mut self) -> Result<ClusterRecord, WatchError> {
        let root = self.root;
        let znode = self.asker.get(root, self.is_told)?;
        let znode = znode
            .ok_or_else(|| WatchError::Damaged(format!("there is no znode {root} any more")))?;
        decode(root, &znode.data)
    }

    /// The nodes and the places of chains: those it was made with while none was changed.
    fn layout(&mut self, founded: Layout) -> Result<Layout, WatchError> {
        let path = layout_path(self.root);
        match self.read(&path)? {
            Some(znode) => decode(&path, &znode.data),
            None if self
                .last
                .as_ref()
                .is_some_and(|last| *last.layout != founded) =>
            {
                Err(WatchError::Damaged(format!(
                    "there is no znode {path} any more"
                )))
            }
            None => Ok(founded),
        }
    }

    fn read(&mut self, path: &str) -> Result<Option<Znode>, EnsembleError> {
        match self.is_told {
            true => self.asker.watched(path),
            false => self.asker.get(path, false),
        }
    }

    /// The newest configuration of a chain. One that this process published on another connection
    /// may be `known` before its watch fires here.
    fn configuration(
        &mut self,
        chain: ChainId,
        known: u64,
    ) -> Result<Option<Configuration>, WatchError> {
        let path = chain_path(self.root, chain);
        let of = |znode: Option<Znode>| -> Result<Option<Configuration>, WatchError> {
            znode.map(|znode| decode(&path, &znode.data)).transpose()
        };
        let read = of(self.read(&path)?)?;
        if known <= read.as_ref().map_or(0, |read| read.epoch) {
            return Ok(read);
        }
        self.asker.forget(&path);
        match of(self.read(&path)?)? {
            None if self.last.is_some() => Err(WatchError::Damaged(format!(
                "there is no znode {path} any more"
            ))),
            read => Ok(read),
        }
    }

    /// The names of sessions; none before the first process.
    fn sessions(&mut self) -> Result<Vec<String>, EnsembleError> {
        let path = format!("{}/sessions", self.root);
        match self.is_told || self.asker.get(&path, false)?.is_some() {
            true if self.is_told => self.asker.watched_children(&path),
            true => self.asker.children(&path, false),
            false => Ok(Vec::new()),
        }
    }

    /// A session, if it is there.
    fn session(&mut self, name: &str) -> Result<Option<Seen>, EnsembleError> {
        let path = format!("{}/sessions/{name}", self.root);
        let znode = self.asker.get(&path, false)?;
        Ok(znode.map(|znode| Seen {
            version: znode.version,
            created: znode.created,
            record: SessionRecord::decode(&znode.data)
                .map_err(|why| format!("the znode {path} {why}")),
        }))
    }

    fn trouble(&self, unseen: Unseen) -> WatchError {
        let speaks = self.speaks;
        WatchError::Content(match unseen {
            // Its incarnations may live: nothing is decided without it. Its process writes it anew
            // with its next ping, or it is ended as others are.
            Unseen::Damaged(why) => return WatchError::Damaged(why),
            Unseen::Unspoken(version) => Outage::Unspoken { version, speaks },
            Unseen::Older {
                chain,
                epoch,
                known,
            } => Outage::Behind {
                chain,
                epoch,
                known,
            },
            Unseen::Unasked => Outage::Unwatched,
        })
    }
}

/// Why a reading is none.
pub(super) enum WatchError {
    Failure(EnsembleError),
    /// What a znode says is not to be.
    Content(Outage),
    /// A znode is not what Fader wrote.
    Damaged(String),
}

impl From<EnsembleError> for WatchError {
    fn from(failure: EnsembleError) -> Self {
        WatchError::Failure(failure)
    }
}

/// Why a process cannot be in a cluster.
pub(super) fn unspoken(version: Version, speaks: Version) -> String {
    Outage::Unspoken { version, speaks }.to_string()
}

/// Notes a disk's progress before a session that tells it is ended: afterwards it is unknown
/// (COORD-5). That a disk's znode is not what it should be is no reason to keep the session.
pub(super) fn note_end(
    asker: &mut EnsembleClient,
    path: &str,
    progress: Progress,
    version: Version,
) -> Result<(), EnsembleError> {
    match note_progress(asker, path, progress, version) {
        Err(WatchError::Failure(failure)) => Err(failure),
        Err(WatchError::Content(outage)) => {
            tracing::warn!("how far a disk came is not noted: {outage}");
            Ok(())
        }
        Err(WatchError::Damaged(why)) => {
            tracing::warn!("how far a disk came is not noted: {why}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Notes in a disk's znode how far it came, where that is news.
pub(super) fn note_progress(
    asker: &mut EnsembleClient,
    path: &str,
    said: Progress,
    version: Version,
) -> Result<(), WatchError> {
    for _ in 0..TRIES {
        let Some(znode) = asker.get(path, false)? else {
            return Err(WatchError::Damaged(format!("there is no znode {path}")));
        };
        let known: DiskRecord = decode(path, &znode.data)?;
        let Some(progress) = further(known.progress, said, version) else {
            return Ok(());
        };
        let record = DiskRecord { progress, ..known };
        if asker.set(path, &record.encode(), znode.version)? == Changed::Done {
            return Ok(());
        }
    }
    Err(WatchError::Content(Outage::Contended {
        znode: path.to_owned(),
    }))
}

fn decode<T: Content>(path: &str, data: &[u8]) -> Result<T, WatchError> {
    T::decode(data).map_err(|why| WatchError::Damaged(format!("the znode {path} {why}")))
}
