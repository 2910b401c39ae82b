//! What the chains of a process wait for (I20): of each what the coordinator knows, and what its
//! members know of themselves and, the head, of others: those in other processes are asked.

use std::time::Duration;

use fader_chain::{ChainId, Configuration, NodeId, Role, Wait, waits, words};
use fader_services::forward::{Asked, Told};

use super::Cluster;
use crate::coordinator::Standing;

/// After this time a member's thread that says nothing has something to wait for itself.
const THREAD: Duration = Duration::from_secs(1);
/// How long another process may take to say what its member waits for.
const LOOK: Duration = Duration::from_secs(1);

/// What a chain waits for, a sentence for each thing, and whether it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// Which chain.
    pub chain: ChainId,
    /// How its members stand, and where more is known.
    pub standing: String,
    /// What it waits for; nothing if there is nothing.
    pub waits: Vec<String>,
}

impl Why {
    fn new(chain: ChainId, standing: String, mut waits: Vec<String>) -> Self {
        let mut said = Vec::new();
        waits.retain(|wait| {
            let is_new = !said.contains(wait);
            said.push(wait.clone());
            is_new
        });
        Why {
            chain,
            standing,
            waits,
        }
    }

    /// The same as it is displayed, for a log.
    pub(crate) fn in_a_line(&self) -> String {
        let shown = self.to_string();
        let lines: Vec<&str> = shown.lines().map(str::trim).collect();
        lines.join("; ")
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Why {
            chain, standing, ..
        } = self;
        if self.waits.is_empty() {
            return writeln!(f, "{chain} ({standing}) {}", words::NOTHING);
        }
        writeln!(f, "{chain} ({standing}) waits")?;
        self.waits
            .iter()
            .try_for_each(|wait| writeln!(f, "  {wait}"))
    }
}

impl Cluster {
    /// What a chain waits for.
    pub(crate) async fn why(&self, chain: ChainId) -> Why {
        let newest = self.configuration();
        let mut why = Vec::new();
        if !self.is_reachable() {
            why.push(
                "for ZooKeeper to answer this process: nobody is removed and nobody joins \
                 meanwhile, and what follows is what was known before"
                    .to_owned(),
            );
        }
        match &newest {
            Some(newest) => why.extend(self.known(newest)),
            None => why.push(words::first_members(self.missing().into_iter())),
        }
        why.extend(self.own_waits());
        let Some(newest) = newest else {
            return Why::new(chain, "not begun".to_owned(), why);
        };
        let (others, unheard) = self.others_waits(&newest).await;
        why.extend(others);
        why.extend(self.leavers(&newest));
        let mut standing = standing(&newest, |node| self.name_by_disk(node));
        if !unheard.is_empty() {
            let unheard = unheard.join(" and ");
            standing += &format!("; {unheard} did not say what its member waits for");
        }
        Why::new(chain, standing, why)
    }

    /// What the coordinator's facts say.
    fn known(&self, newest: &Configuration) -> Vec<String> {
        let (facts, silent) = self.facts();
        let waits = waits(newest, &facts, &silent);
        let words = waits.iter().map(|it| self.in_words(it));
        let unequal = made_equal(newest, |node| self.name_by_disk(node));
        words.chain(unequal).collect()
    }

    /// What the members of other processes say, and who says nothing.
    async fn others_waits(&self, newest: &Configuration) -> (Vec<String>, Vec<String>) {
        let (mut why, mut unheard) = (Vec::new(), Vec::new());
        let nodes = newest.seats.iter().map(|seat| seat.node);
        for node in nodes.filter(|node| self.is_of_another(*node)) {
            match self.waits_of(node).await {
                Some(waits) => why.extend(waits),
                None => unheard.push(self.name(node)),
            }
        }
        (why, unheard)
    }

    /// Whether a member is another process's, which alone knows what it waits for.
    pub(crate) fn is_of_another(&self, node: NodeId) -> bool {
        self.process.is_some() && self.own() != Some(node)
    }

    /// What a member of another process says that it waits for; none if it does not say.
    pub(crate) async fn waits_of(&self, node: NodeId) -> Option<Vec<String>> {
        // An older version has no such question.
        let process = self.process.as_ref();
        let process = process.filter(|_| self.version().is_third())?;
        let asked = process
            .peers()
            .forward(node, process.chain, &Asked::Why, LOOK);
        match asked.await {
            Ok(Told::Why(waits)) => Some(waits),
            Ok(_) | Err(_) => None,
        }
    }

    /// What the members here say.
    pub(crate) fn own_waits(&self) -> Vec<String> {
        let mut why = Vec::new();
        why.extend(self.damaged().iter().map(|name| words::damage(name)));
        let failed = self.failed();
        why.extend(failed.iter().map(|(name, it)| words::failed(name, it)));
        for (name, member) in self.named_members() {
            let shared = member.shared();
            let (waits, age) = shared.waits();
            why.extend(waits.iter().map(|it| self.in_words(it)));
            if let Some(age) = age.filter(|age| THREAD <= *age) {
                why.push(words::standstill(&name, age));
            }
            let names = |nodes: &[NodeId]| nodes.iter().map(|node| self.name(*node)).collect();
            for it in shared.waitings.all() {
                let closing = &it.closing;
                why.extend(words::closing(
                    &closing.name.name,
                    names(&it.away),
                    names(&it.silent),
                ));
            }
        }
        why
    }

    fn in_words(&self, wait: &Wait) -> String {
        words::wait(wait, self.session(), |node| self.name_by_disk(node))
    }
}

/// The epoch, the head and how many there are.
fn standing(newest: &Configuration, name: impl Fn(NodeId) -> String) -> String {
    let of = |role| newest.seats.iter().filter(|seat| seat.role == role).count();
    let joining = match of(Role::Syncing) {
        0 => "",
        _ => ", one joins",
    };
    format!(
        "epoch {}, {} serving{joining}, head {}",
        newest.epoch,
        of(Role::Serving),
        name(newest.head())
    )
}

/// The members that have to be made equal to others (DG-3).
fn made_equal(
    newest: &Configuration,
    name: impl Fn(NodeId) -> String,
) -> impl Iterator<Item = String> {
    let seats = newest.seats.iter();
    let unequal = seats.filter(|seat| seat.role.is_syncing() && newest.must_fill(seat.disk));
    unequal.map(move |seat| words::made_equal(&name(seat.node)))
}

impl Standing {
    /// What the cluster's chains wait for, as the coordinator knows it; of one chain only, if one
    /// is named.
    pub fn why(&self, only: Option<ChainId>) -> Vec<Why> {
        let chains = self.layout.chains.iter();
        let chains = chains.map(|(chain, spread)| (*chain, &spread.nodes));
        let wanted = chains.filter(|(chain, _)| only.is_none_or(|only| only == *chain));
        let why = wanted.map(|(chain, names)| {
            let Some(newest) = self.configurations.get(&chain) else {
                let is_there = |name: &&String| {
                    let mut present = self.present.iter();
                    present.any(|it| it.name == **name && it.member(chain).is_some())
                };
                let missing = names.iter().filter(|name| !is_there(name)).cloned();
                let why = words::first_members(missing);
                return Why::new(chain, "not begun".to_owned(), vec![why]);
            };
            let facts = self.facts(chain, names.len());
            let waits = waits(newest, &facts, &self.silent(chain));
            let session = self.cluster.session;
            let words = waits
                .iter()
                .map(|it| words::wait(it, session, |node| self.name(node)));
            let away = self.away.iter().filter(|it| it.chain == chain);
            let leavers = away.filter_map(|it| self.awaited(it));
            let unequal = made_equal(newest, |node| self.name(node));
            let standing = standing(newest, |node| self.name(node));
            Why::new(
                chain,
                standing,
                words.chain(unequal).chain(leavers).collect(),
            )
        });
        why.collect()
    }
}
