//! The models of blocks of objects, as one list. Their bytes are on the real replica; commits,
//! reads and eventual puts are on the real decisions of the services.

use clap::ValueEnum;
use fader_chain::{Guard, Guards};

use super::bytes::ByteRule;
use super::commit::{self, CommitScope};
use super::eventual::{self, EventualRule, EventualScope};
use super::explore::{self, Found, Limits, Outcome};
use super::reads::{self, ReadRule, ReadScope};
use super::scenarios::{Scenario, byte_scenarios};

/// A scope of one of the models.
#[derive(Clone, Debug)]
pub enum BlockScope {
    /// Bytes beside records, on the real replica.
    Bytes(Box<Scenario>),
    /// Commits, fences and collectors, on the real decisions.
    Commit(CommitScope),
    /// A read against the wait of garbage and the end of bytes.
    Reads(ReadScope),
    /// An eventual put against the end of its attempt.
    Eventual(EventualScope),
}

/// What a search can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// A rule of those who carry bytes.
    Bytes(ByteRule),
    /// A rule of those who collect and read.
    Read(ReadRule),
    /// A rule of those who take, settle and end eventual puts.
    Eventual(EventualRule),
    /// A guard of chains or services: only programs with the feature `mutants` can leave it out.
    Guard(Guard),
}

impl LeftOut {
    /// All rules that any program can do without.
    pub fn rules() -> impl Iterator<Item = LeftOut> {
        let bytes = ByteRule::ALL.into_iter().map(LeftOut::Bytes);
        let reads = ReadRule::ALL.into_iter().map(LeftOut::Read);
        let eventual = EventualRule::ALL.into_iter().map(LeftOut::Eventual);
        bytes.chain(reads).chain(eventual)
    }

    /// The rule of this name.
    ///
    /// # Errors
    /// The names that there are.
    pub fn named(name: &str) -> Result<LeftOut, String> {
        let all: Vec<LeftOut> = LeftOut::rules().collect();
        let found = all.iter().find(|rule| rule.name() == name).copied();
        found.ok_or_else(|| {
            let names: Vec<String> = all.iter().map(LeftOut::name).collect();
            format!("the rules are {}", names.join(", "))
        })
    }

    fn name(&self) -> String {
        let value = match self {
            LeftOut::Bytes(rule) => rule.to_possible_value(),
            LeftOut::Read(rule) => rule.to_possible_value(),
            LeftOut::Eventual(rule) => rule.to_possible_value(),
            LeftOut::Guard(_) => None,
        };
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether something is told without it.
    pub fn is_needed(self) -> bool {
        match self {
            LeftOut::Read(rule) => rule.is_needed(),
            LeftOut::Bytes(rule) => rule.is_needed(),
            _ => true,
        }
    }
}

/// All scopes.
pub fn block_scopes() -> Vec<BlockScope> {
    let bytes = byte_scenarios().into_iter().map(Box::new);
    let commits = commit::scopes().into_iter().map(BlockScope::Commit);
    let reads = reads::scopes().into_iter().map(BlockScope::Reads);
    let eventual = eventual::scopes().into_iter().map(BlockScope::Eventual);
    let bytes = bytes.map(BlockScope::Bytes);
    bytes.chain(commits).chain(reads).chain(eventual).collect()
}

impl BlockScope {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            BlockScope::Bytes(scenario) => scenario.name,
            BlockScope::Commit(scope) => scope.name,
            BlockScope::Reads(scope) => scope.name,
            BlockScope::Eventual(scope) => scope.name,
        }
    }

    /// Whether every merge searches it.
    pub fn is_quick(&self) -> bool {
        match self {
            BlockScope::Bytes(scenario) => scenario.is_quick,
            BlockScope::Commit(scope) => scope.is_quick,
            BlockScope::Reads(scope) => scope.is_quick,
            BlockScope::Eventual(scope) => scope.is_quick,
        }
    }

    /// Searches it, without one of its rules.
    pub fn explore(&self, without: Option<LeftOut>, limits: Limits) -> Found {
        let guards = match without {
            Some(LeftOut::Guard(guard)) => guards_without(guard),
            _ => Guards::default(),
        };
        match (self, without) {
            (BlockScope::Bytes(it), Some(LeftOut::Bytes(rule))) => {
                explore::explore(&it.without(rule), &guards, limits)
            }
            (BlockScope::Bytes(it), _) => explore::explore(it, &guards, limits),
            (BlockScope::Commit(it), _) => commit::explore(it, &guards, limits),
            (BlockScope::Reads(it), Some(LeftOut::Read(rule))) => {
                reads::explore(it, Some(rule), &guards, limits)
            }
            (BlockScope::Reads(it), _) => reads::explore(it, None, &guards, limits),
            (BlockScope::Eventual(it), Some(LeftOut::Eventual(rule))) => {
                eventual::explore(it, Some(rule), &guards, limits)
            }
            (BlockScope::Eventual(it), _) => eventual::explore(it, None, &guards, limits),
        }
    }

    /// What it tells the absence of.
    pub fn tells(&self) -> Vec<LeftOut> {
        let mut tells = Vec::new();
        let guards: &[Guard] = match self {
            BlockScope::Bytes(scenario) => {
                let bytes = scenario.bytes.iter();
                tells.extend(bytes.flat_map(|it| it.tells).copied().map(LeftOut::Bytes));
                &[]
            }
            BlockScope::Commit(scope) => scope.tells,
            BlockScope::Reads(scope) => {
                tells.extend(scope.tells.iter().copied().map(LeftOut::Read));
                scope.tells_guards
            }
            BlockScope::Eventual(scope) => {
                tells.extend(scope.tells.iter().copied().map(LeftOut::Eventual));
                scope.tells_guards
            }
        };
        let guards = guards.iter().filter(|_| cfg!(feature = "mutants"));
        tells.extend(guards.copied().map(LeftOut::Guard));
        tells
    }
}

/// What is told without each rule: its trace, with the rule and the scope, shortest first. One
/// wiring is enough.
///
/// # Errors
/// The rules of which nothing is told.
pub fn traces(
    scopes: &[BlockScope],
    limits: Limits,
) -> Result<Vec<(LeftOut, &'static str, String)>, Vec<LeftOut>> {
    let mut told: Vec<(usize, LeftOut, _, _)> = Vec::new();
    let mut untold = Vec::new();
    for scope in scopes {
        for rule in scope.tells() {
            if told.iter().any(|(_, it, ..)| *it == rule) {
                continue;
            }
            match scope.explore(Some(rule), limits).outcome {
                Outcome::Violated { what, trace } => {
                    let length = trace.lines().filter(|line| !line.starts_with(' ')).count();
                    told.push((length, rule, scope.name(), format!("{what}\n{trace}")));
                }
                Outcome::Exhausted | Outcome::CutOff => untold.push(rule),
            }
        }
    }
    told.sort();
    untold.retain(|rule| !told.iter().any(|(_, it, ..)| it == rule));
    match untold.is_empty() {
        true => Ok(told
            .into_iter()
            .map(|(_, rule, scope, it)| (rule, scope, it))
            .collect()),
        false => Err(untold),
    }
}

fn guards_without(guard: Guard) -> Guards {
    #[cfg(feature = "mutants")]
    return Guards::without([guard]);
    #[cfg(not(feature = "mutants"))]
    {
        let _ = guard;
        Guards::default()
    }
}

#[cfg(test)]
mod tests;
