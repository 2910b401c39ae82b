//! The process acts on what the coordinator knows, and tells what happens.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::controller::{ObservedState, Returning, first, next};
use fader_chain::{Configuration, DiskId, NodeId, Progress};

use super::hand_over::HandOver;
use super::preferred_roles::PreferredRoles;
use super::{Cluster, role};
use crate::coordinator::CoordinatorError;
use crate::status::HealthCause;

/// How often it looks at a chain that does not serve, or whose sessions no other process counts:
/// they end by time.
const LOOK: Duration = Duration::from_millis(50);
/// How often it looks at a chain that serves, or of which nothing is here, when it hears of no
/// change.
const LOOK_AT_REST: Duration = Duration::from_secs(1);

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member was killed.
    Killed(String),
    /// A member that was killed, or failed, was started.
    Started(String),
    /// A member failed, by this cause; it begins again after that time.
    Failed(String, HealthCause, Duration),
    /// A member was paused for a time.
    Paused(String, Duration),
    /// The ways between members of different sides were cut.
    Partitioned(Vec<Vec<String>>),
    /// A member is damaged; the reason says where.
    Damaged(String, String),
    /// The folder of a member that is damaged, or failed again and again, was set aside; the member
    /// joins with an empty one.
    Replaced(String, PathBuf),
    /// The state of a member is not that of the others: it is filled anew (I21).
    Differs(String),
    /// The chain does not wait any longer for a member's confirmations (SL-1).
    Slow(String),
    /// An operator had the chain go on with what this member has (AL-4).
    Restored(String),
    /// A partition was ended.
    Healed,
    /// A configuration was published.
    Epoch {
        /// Its number.
        epoch: u64,
        /// The members, head first, with their roles.
        members: Vec<(String, &'static str)>,
        /// In words, what is different.
        changes: Vec<String>,
    },
}

/// What it knows of earlier looks.
struct Acting {
    /// When the safe point rose last.
    raised: Instant,
    preferred_roles: PreferredRoles,
    returning: Returning,
    hand_over: HandOver,
}

/// Starts the controller of `cluster`.
pub(super) fn start(cluster: &Arc<Cluster>) -> io::Result<JoinHandle<()>> {
    let wakeup = cluster.wakeup.clone();
    cluster.coordinator.listen(&wakeup);
    let mut acting = Acting {
        raised: cluster.clock().instant(),
        preferred_roles: PreferredRoles::default(),
        returning: Returning::default(),
        hand_over: HandOver::default(),
    };
    let cluster = Arc::downgrade(cluster);
    let builder = std::thread::Builder::new().name("controller".to_owned());
    builder.spawn(move || {
        let mut told = None;
        let mut troubled = None;
        while let Some(cluster) = cluster.upgrade() {
            if cluster.is_closing.load(Ordering::Relaxed) {
                return;
            }
            if let Some(process) = &cluster.process {
                process.look();
            }
            tell_trouble(&cluster, &mut troubled);
            let is_at_rest = !cluster.is_concerned() || control(&cluster, &mut acting);
            cluster.mend();
            if let Some(newest) = cluster.configuration()
                && told.as_ref() != Some(&newest)
            {
                tell_loss(&cluster, told.as_deref(), &newest);
                (cluster.tell)(event(&cluster, told.as_deref(), &newest));
                told = Some(newest);
            }
            cluster.turns.on_turn();
            let rests = is_at_rest && cluster.process.is_some() && !cluster.has_trouble();
            drop(cluster);
            wakeup.wait(match rests {
                true => LOOK_AT_REST,
                false => LOOK,
            });
        }
    })
}

/// Tells who differs from the others, or for whom the chain waits, once for each epoch.
fn tell_trouble(cluster: &Cluster, told: &mut Option<u64>) {
    let Some(newest) = cluster.configuration() else {
        return;
    };
    let reports = cluster.coordinator.reports();
    let differs = reports.differs(newest.epoch);
    let Some(node) = differs.or_else(|| reports.slow(&newest)) else {
        return;
    };
    if told.replace(newest.epoch) == Some(newest.epoch) {
        return;
    }
    let name = cluster.name(node);
    (cluster.tell)(match differs {
        Some(_) => {
            tracing::error!(name, "the state of a member is not that of the others");
            Event::Differs(name)
        }
        None => Event::Slow(name),
    });
}

/// Tells, where it goes on, with what a chain goes on that was restored (AL-4).
fn tell_loss(cluster: &Cluster, before: Option<&Configuration>, newest: &Configuration) {
    if let (true, Some(member)) = (is_restored(before, newest), cluster.member(newest.head())) {
        tracing::error!(
            epoch = newest.lossy.epoch,
            index = member.counters().commit_index,
            "by an operator's order the chain goes back to what the member here has: up to this \
             index. What was acknowledged beyond is lost"
        );
    }
}

/// Whether the chain was restored since `before`. Of the first configuration that was seen here,
/// that one tells: an operator may be faster than a process that begins.
fn is_restored(before: Option<&Configuration>, newest: &Configuration) -> bool {
    match before {
        Some(before) => before.lossy.count < newest.lossy.count,
        None => newest.lossy.epoch == newest.epoch,
    }
}

/// Publishes what the facts ask for. That another controller was first is no matter. Says whether
/// they ask for nothing, and no time has to pass until they do.
fn control(cluster: &Cluster, acting: &mut Acting) -> bool {
    let coordinator = &*cluster.coordinator;
    // Before the sessions, which then leave out none of its members.
    let Ok(newest) = coordinator.configuration() else {
        return false;
    };
    let raises_at = acting.raised + cluster.settings.member.safe_point_interval;
    let mut observed = observed(cluster, raises_at <= cluster.clock().instant());
    if let (Some(process), Some(newest)) = (&cluster.process, &newest) {
        let homeward = process.preferred_role_change(newest);
        let due = acting.preferred_roles.due(newest, homeward, Instant::now());
        let wanted = process.relief(newest).or(due);
        observed.role_change = acting.hand_over.due(cluster, newest, wanted);
    }
    if let Some(newest) = &newest {
        let now = Duration::from_millis(cluster.clock().monotonic_ms());
        let mut compared = Vec::new();
        let restart = acting.returning.choose(
            now,
            coordinator.session(),
            newest,
            &observed.sessions,
            |disk: DiskId| -> Result<Progress, CoordinatorError> {
                let progress = coordinator.progress(disk)?;
                compared.push((disk, progress));
                Ok(progress)
            },
        );
        if let Ok(Some(member)) = &restart {
            let of = |node: NodeId| cluster.name_by_disk(node);
            let it = of(member.node);
            tracing::info!(
                member = it,
                ?compared,
                "AL-1: the chain begins again with a member"
            );
        }
        observed.restart = restart.unwrap_or_else(|error| {
            tracing::warn!(%error, "how far members came that are back cannot be seen");
            None
        });
    }
    // Where none that serves lives, one that returns is waited for, for a time (AL-1).
    let serves = |newest: &Arc<Configuration>| {
        let mut living = observed.sessions.iter();
        living.any(|it| newest.serving().any(|node| node == it.node))
    };
    let is_served = newest.as_ref().is_some_and(serves) && !acting.hand_over.is_under_way();
    let (expected, wanted) = match newest {
        Some(newest) => (newest.epoch, next(&newest, &observed)),
        None => {
            let members = cluster.first_members(&observed.sessions);
            (
                0,
                members.map(|members| first(&members, observed.wiring, observed.version)),
            )
        }
    };
    if observed.raise_safe_point {
        acting.raised = cluster.clock().instant();
    }
    let Some(wanted) = wanted else {
        return is_served;
    };
    if let Err(error) = coordinator.publish(expected, wanted) {
        tracing::warn!(%error, "a configuration was perhaps not published");
    }
    false
}

/// What is known, to be read after the configuration.
pub(super) fn observed(cluster: &Cluster, raise_safe_point: bool) -> ObservedState {
    let coordinator = &*cluster.coordinator;
    ObservedState {
        sessions: coordinator.sessions(),
        unheard: coordinator.unheard(),
        reports: coordinator.reports(),
        size: cluster.size(),
        unwanted: cluster.unwanted(),
        wiring: cluster.settings.wiring,
        role_change: None,
        raise_safe_point,
        restart: None,
        version: coordinator.version(),
    }
}

fn event(cluster: &Cluster, before: Option<&Configuration>, newest: &Configuration) -> Event {
    let members = newest.members.iter().map(|member| {
        let role = role(newest, member.node).unwrap_or_default();
        (cluster.name(member.node), role)
    });
    Event::Epoch {
        epoch: newest.epoch,
        members: members.collect(),
        changes: before.map_or_else(Vec::new, |before| changes(cluster, before, newest)),
    }
}

/// In words, what is different.
fn changes(cluster: &Cluster, before: &Configuration, newest: &Configuration) -> Vec<String> {
    let mut changes = Vec::new();
    for member in &before.members {
        if newest.member(member.node).is_none() {
            changes.push(format!("{} is out", cluster.name(member.node)));
        }
    }
    for member in &newest.members {
        let name = cluster.name(member.node);
        let (was, is) = (role(before, member.node), role(newest, member.node));
        match (was, is) {
            (None | Some("joining" | "leaving"), Some("serving")) => {
                changes.push(format!("{name} serves"))
            }
            (_, Some("joining")) if was != is => changes.push(format!("{name} joins")),
            (_, Some("leaving")) if was != is => changes.push(format!("{name} leaves")),
            (was, Some("head")) if was != is => changes.push(format!("{name} is the head")),
            _ => {}
        }
    }
    if before.safe_point < newest.safe_point {
        changes.push(format!("marks up to {} may go", newest.safe_point));
    }
    changes
}

#[cfg(test)]
mod tests {
    use fader_chain::{DiskId, Identity, Incarnation, NodeId, Version, Wiring, controller};

    use super::is_restored;

    #[test]
    fn a_restored_chain_is_told_of_though_nothing_was_seen_before() {
        let member = Identity {
            node: NodeId(1),
            incarnation: Incarnation(1),
            disk: DiskId(1),
        };
        let first = controller::first(&[member], Wiring::Star, Version::default());
        let mut restored = first.clone();
        restored.epoch = 7;
        (restored.lossy.count, restored.lossy.epoch) = (1, 7);
        let mut later = restored.clone();
        later.epoch = 8;
        assert!(is_restored(Some(&first), &restored) && is_restored(None, &restored));
        assert!(is_restored(Some(&first), &later), "epochs may be skipped");
        for (before, newest) in [
            (None, &first),
            (Some(&restored), &later),
            (None, &later),
            (Some(&restored), &restored),
        ] {
            assert!(!is_restored(before, newest), "{before:?} {newest:?}");
        }
    }
}
