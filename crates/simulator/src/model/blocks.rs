//! The models of blocks of objects, as one list: their bytes on the real replica, and commits on
//! the real decisions of the services.

use fader_chain::{Guard, Guards};

use super::bytes::ByteRule;
use super::commit::{self, CommitScope};
use super::explore::{self, Found, Limits, Outcome};
use super::scenarios::{Scenario, byte_scenarios};

/// A scope of one of the models.
#[derive(Clone, Debug)]
pub enum BlockScope {
    /// Bytes beside records, on the real replica.
    Bytes(Box<Scenario>),
    /// Commits, fences and collectors, on the real decisions.
    Commit(CommitScope),
}

/// What a search can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// A rule of those who carry bytes.
    Rule(ByteRule),
    /// A guard of chains or services: only programs with the feature `mutants` can leave it out.
    Guard(Guard),
}

/// All scopes.
pub fn block_scopes() -> Vec<BlockScope> {
    let bytes = byte_scenarios().into_iter().map(Box::new);
    let commits = commit::scopes().into_iter().map(BlockScope::Commit);
    bytes.map(BlockScope::Bytes).chain(commits).collect()
}

impl BlockScope {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            BlockScope::Bytes(scenario) => scenario.name,
            BlockScope::Commit(scope) => scope.name,
        }
    }

    /// Whether every merge searches it.
    pub fn is_quick(&self) -> bool {
        match self {
            BlockScope::Bytes(scenario) => scenario.is_quick,
            BlockScope::Commit(scope) => scope.is_quick,
        }
    }

    /// Searches it, without one of its rules.
    pub fn explore(&self, without: Option<LeftOut>, limits: Limits) -> Found {
        let (mut rule, mut guards) = (None, Guards::default());
        match without {
            None => {}
            Some(LeftOut::Rule(it)) => rule = Some(it),
            Some(LeftOut::Guard(guard)) => guards = guards_without(guard),
        }
        match self {
            BlockScope::Bytes(it) => explore::explore(&it.without(rule), &guards, limits),
            BlockScope::Commit(scope) => commit::explore(scope, &guards, limits),
        }
    }

    /// What it tells the absence of.
    pub fn tells(&self) -> Vec<LeftOut> {
        let guards = match self {
            BlockScope::Bytes(scenario) => {
                let bytes = scenario.bytes.iter();
                let rules = bytes.flat_map(|it| it.tells).copied().map(LeftOut::Rule);
                return rules.collect();
            }
            BlockScope::Commit(scope) => scope.tells,
        };
        let guards = guards.iter().filter(|_| cfg!(feature = "mutants"));
        guards.copied().map(LeftOut::Guard).collect()
    }
}

/// What is told without each rule: its trace, with the rule and the scope, shortest first.
///
/// # Errors
/// The rules of which nothing is told.
pub fn traces(
    scopes: &[BlockScope],
    limits: Limits,
) -> Result<Vec<(LeftOut, &'static str, String)>, Vec<LeftOut>> {
    let (mut told, mut untold) = (Vec::new(), Vec::new());
    for scope in scopes {
        for rule in scope.tells() {
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
    // One wiring is enough.
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
