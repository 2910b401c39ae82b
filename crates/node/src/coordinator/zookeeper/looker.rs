//! Carries what a [`Watch`] asks for to a server: for the watcher of a process, and for operators'
//! commands.

use std::time::Instant;

use fader_chain::membership::{
    Ask, Reading, Seen, SessionRecord, Told, Trouble as Unseen, Watch, further,
};
use fader_chain::placement::layout::Layout;
use fader_chain::{ChainId, Configuration, Progress, Version};
use fader_zookeeper::{Asker, Changed, Failure};

use super::TRIES;
use super::paths::{chain_path, disk_path, layout_path};
use super::record::{ClusterRecord, Content, DiskRecord};

/// One look at a cluster.
pub(super) struct Looker<'a> {
    /// The znode below which everything is.
    pub(super) root: &'a str,
    pub(super) asker: &'a mut Asker,
    pub(super) watch: &'a mut Watch,
    /// When the first look of `watch` began.
    pub(super) started: Instant,
    /// The greatest version that this process speaks.
    pub(super) speaks: Version,
    /// Whether the next change ends [`Asker::wait`].
    pub(super) is_told: bool,
}

/// What a look showed.
pub(super) struct Looked {
    /// What the cluster was made with, and its version.
    pub(super) cluster: ClusterRecord,
    /// The nodes, and where chains are to be.
    pub(super) layout: Layout,
    /// Configurations and sessions.
    pub(super) reading: Reading,
}

impl Looker<'_> {
    /// Reads everything, and ends sessions that are over. `known` is the newest epoch of a chain
    /// that is known.
    pub(super) fn look(mut self, known: impl Fn(ChainId) -> u64) -> Result<Looked, Trouble> {
        self.watch.begin(self.started.elapsed());
        let (mut cluster, mut layout) = (None::<ClusterRecord>, None::<Layout>);
        while let Some(ask) = self.watch.ask().cloned() {
            let told = match ask {
                Ask::Cluster => {
                    let read = cluster.insert(self.cluster()?);
                    Told::Cluster(read.version)
                }
                Ask::Layout => {
                    let founded = cluster.as_ref().map(ClusterRecord::founded);
                    let read = layout.insert(self.layout(founded.unwrap_or_default())?);
                    Told::Layout(read.chains.keys().copied().collect())
                }
                Ask::Configuration(chain) => {
                    let known = known(chain);
                    Told::Configuration(self.configuration(chain)?.map(Into::into), known)
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
            }),
            _ => Err(self.trouble(Unseen::Unasked)),
        }
    }

    /// The record of the cluster.
    fn cluster(&mut self) -> Result<ClusterRecord, Trouble> {
        let root = self.root;
        let znode = self.asker.get(root, self.is_told)?;
        let znode = znode.ok_or_else(|| Trouble::Content(format!("there is no znode {root}")))?;
        decode(root, &znode.data)
    }

    /// The nodes and the places of chains: those it was made with while none was changed.
    fn layout(&mut self, founded: Layout) -> Result<Layout, Trouble> {
        let path = layout_path(self.root);
        match self.asker.get(&path, self.is_told)? {
            Some(znode) => decode(&path, &znode.data),
            None => Ok(founded),
        }
    }

    /// The newest configuration of a chain.
    fn configuration(&mut self, chain: ChainId) -> Result<Option<Configuration>, Trouble> {
        let path = chain_path(self.root, chain);
        let znode = self.asker.get(&path, self.is_told)?;
        znode.map(|znode| decode(&path, &znode.data)).transpose()
    }

    /// The names of sessions; none before the first process.
    fn sessions(&mut self) -> Result<Vec<String>, Trouble> {
        let path = format!("{}/sessions", self.root);
        match self.is_told || self.asker.get(&path, false)?.is_some() {
            true => Ok(self.asker.children(&path, self.is_told)?),
            false => Ok(Vec::new()),
        }
    }

    /// A session, if it is there.
    fn session(&mut self, name: &str) -> Result<Option<Seen>, Failure> {
        let path = format!("{}/sessions/{name}", self.root);
        let znode = self.asker.get(&path, false)?;
        Ok(znode.map(|znode| Seen {
            version: znode.version,
            created: znode.created,
            record: SessionRecord::decode(&znode.data)
                .map_err(|why| format!("the znode {path} {why}")),
        }))
    }

    fn trouble(&self, unseen: Unseen) -> Trouble {
        Trouble::Content(match unseen {
            Unseen::Unspoken(version) => unspoken(version, self.speaks),
            Unseen::Older {
                chain,
                epoch,
                known,
            } => format!(
                "ZooKeeper knows epoch {epoch} of {chain}, but this node epoch {known}: it lags \
                 behind, or its history was lost"
            ),
            Unseen::Damaged(why) => why,
            Unseen::Unasked => "the coordinator's watcher lost its place".to_owned(),
        })
    }
}

/// Why a reading is none.
pub(super) enum Trouble {
    Failure(Failure),
    /// A znode is not what it should be.
    Content(String),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failure(failure)
    }
}

/// Why a process cannot be in a cluster.
pub(super) fn unspoken(version: Version, speaks: Version) -> String {
    format!(
        "the cluster is of version {version}, but this process speaks {speaks} at most: start it \
         with a newer version of Fader"
    )
}

/// Notes a disk's progress before a session that tells it is ended: afterwards it is unknown (C5).
/// That a disk's znode is not what it should be is no reason to keep the session.
pub(super) fn note_end(
    asker: &mut Asker,
    path: &str,
    progress: Progress,
    version: Version,
) -> Result<(), Failure> {
    match note_progress(asker, path, progress, version) {
        Err(Trouble::Failure(failure)) => Err(failure),
        Err(Trouble::Content(why)) => {
            tracing::warn!("how far a disk came is not noted: {why}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Notes in a disk's znode how far it came, where that is news.
pub(super) fn note_progress(
    asker: &mut Asker,
    path: &str,
    said: Progress,
    version: Version,
) -> Result<(), Trouble> {
    for _ in 0..TRIES {
        let Some(znode) = asker.get(path, false)? else {
            return Err(Trouble::Content(format!("there is no znode {path}")));
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
    Err(Trouble::Content(format!(
        "too many write to the znode {path}"
    )))
}

fn decode<T: Content>(path: &str, data: &[u8]) -> Result<T, Trouble> {
    T::decode(data).map_err(|why| Trouble::Content(format!("the znode {path} {why}")))
}
