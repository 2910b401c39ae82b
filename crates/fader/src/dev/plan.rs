//! What shall happen to a cluster, and when: `n2@5s`, `n1,n2/n3@8s`.

use std::str::FromStr;
use std::time::{Duration, Instant};

use fader_node::{Cluster, ClusterError, Node};

/// Something at a time after the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) what: T,
    pub(super) at: Duration,
}

/// The sides of a partition, each with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sides(pub(super) Vec<Vec<String>>);

/// What is done to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FaultAction {
    Kill(String),
    Restart(String),
    Pause(String, Duration),
    Partition(Sides),
    Heal,
}

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) deed: FaultAction,
}

impl<T: FromStr<Err = String>> FromStr for At<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, at) = text
            .split_once('@')
            .ok_or_else(|| format!("{text:?} has no time: write {text}@5s"))?;
        Ok(At {
            what: what.parse()?,
            at: time(at)?,
        })
    }
}

/// A member's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix('n').unwrap_or_default();
        match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(Name(text.to_owned())),
            false => Err(format!("{text:?} is no member: they are n1, n2, …")),
        }
    }
}

impl FromStr for Sides {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sides = text.split(['/', '|']).map(|side| {
            let names = side.split(',').map(|name| Ok(name.parse::<Name>()?.0));
            names.collect::<Result<Vec<_>, String>>()
        });
        let sides: Vec<Vec<String>> = sides.collect::<Result<_, _>>()?;
        match sides.len() {
            1 => Err(format!("{text:?} has one side: write n1,n2/n3")),
            _ => Ok(Sides(sides)),
        }
    }
}

/// Reads a time: 500ms, 5s, 2m.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000)];
    let parsed = units.into_iter().find_map(|(unit, ms)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(ms)
    });
    parsed
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is no time: write 500ms, 5s or 2m"))
}

impl FaultAction {
    fn carry_out(&self, cluster: &Cluster) -> Result<(), ClusterError> {
        match self {
            FaultAction::Kill(name) => cluster.kill(name),
            FaultAction::Restart(name) => cluster.restart(name),
            FaultAction::Pause(name, time) => cluster.pause(name, *time),
            FaultAction::Partition(Sides(sides)) => cluster.partition(sides),
            FaultAction::Heal => {
                cluster.heal();
                Ok(())
            }
        }
    }
}

/// Carries a plan out, in order, each step at its time from now.
pub(super) async fn follow(node: &Node, plan: Vec<Step>, tell: impl Fn(&str)) {
    let start = Instant::now();
    for Step { at, deed } in plan {
        tokio::time::sleep_until((start + at).into()).await;
        let node = node.clone();
        // A member that ends is waited for.
        let done = tokio::task::spawn_blocking(move || match node.cluster() {
            Some(cluster) => deed.carry_out(cluster),
            None => Ok(()),
        });
        if let Ok(Err(error)) = done.await {
            tell(&error.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
