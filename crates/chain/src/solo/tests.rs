//! Scripts of a replica's behaviour, and any order of inputs against the shell's contract.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;

use bytes::Bytes;
use goldenscript::{Argument, Command, Context, Runner};
use proptest::prelude::*;

use super::{Effect, Input, Replica, Token};
use crate::{Change, EntryId};

struct Script(Replica);

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> Result<String, Box<dyn Error>> {
        let args = command.args.iter().map(|argument| match argument {
            Argument::Positional(value) => Ok(value.as_str()),
            _ => Err("arguments have no names"),
        });
        let args = args.collect::<Result<Vec<_>, _>>()?;
        let token = || Token(args[0].parse().unwrap());
        let input = match command.name.as_str() {
            "recovered" => Input::Recovered {
                epoch: args[0].parse()?,
                last: id(args[1]),
            },
            "epoch-persisted" => Input::EpochPersisted(args[0].parse()?),
            "submit" => submit(token()),
            "refused" => Input::Refused { token: token() },
            "persisted" => Input::Persisted(id(args[0])),
            "persist-failed" => Input::PersistFailed,
            "resumed" => Input::Resumed,
            other => return Err(format!("no command {other}").into()),
        };
        let mut effects = Vec::new();
        self.0.step(input, &mut effects);
        let mut output = String::new();
        for effect in effects {
            match effect {
                Effect::PersistEpoch { epoch, prev } => {
                    writeln!(output, "persist epoch {epoch} after {prev}")?;
                }
                Effect::Persist(entry) => {
                    writeln!(output, "persist {} after {}", entry.id, entry.prev)?;
                }
                Effect::Commit(id) => writeln!(output, "commit {id}")?,
                Effect::Reply(token) => writeln!(output, "reply to {}", token.0)?,
                Effect::Fail(token) => writeln!(output, "fail {}", token.0)?,
            }
        }
        Ok(output)
    }
}

fn submit(token: Token) -> Input {
    let changes = vec![Change::Remove {
        key: Bytes::from_static(b"k"),
    }];
    Input::Submit {
        token,
        request: None,
        result: Bytes::new(),
        changes,
    }
}

fn id(text: &str) -> EntryId {
    let (epoch, index) = text.split_once('.').unwrap();
    EntryId::new(epoch.parse().unwrap(), index.parse().unwrap())
}

#[track_caller]
fn check(name: &str) {
    let mut script = Script(Replica::new());
    goldenscript::run(&mut script, format!("testscripts/solo/{name}")).unwrap();
}

#[test]
fn replies_follow_persistence() {
    check("replies_follow_persistence");
}

#[test]
fn refusals_wait_for_pending_entries() {
    check("refusals_wait_for_pending_entries");
}

#[test]
fn a_failed_persist_fails_everything_behind_it() {
    check("a_failed_persist_fails_everything_behind_it");
}

#[test]
fn the_epoch_rises_at_each_start() {
    check("the_epoch_rises_at_each_start");
}

#[test]
fn a_failed_epoch_is_not_used() {
    check("a_failed_epoch_is_not_used");
}

#[test]
#[should_panic(expected = "I4")]
fn nothing_is_committed_that_was_not_handed_out() {
    let mut replica = Replica::new();
    let mut effects = Vec::new();
    replica.step(
        Input::Recovered {
            epoch: 1,
            last: id("1.1"),
        },
        &mut effects,
    );
    replica.step(Input::Persisted(id("1.2")), &mut effects);
}

#[test]
#[should_panic(expected = "I5")]
fn the_commit_never_falls() {
    let mut replica = Replica::new();
    let mut effects = Vec::new();
    replica.step(
        Input::Recovered {
            epoch: 1,
            last: id("1.2"),
        },
        &mut effects,
    );
    replica.step(Input::Persisted(id("1.1")), &mut effects);
}

/// What a shell does next.
#[derive(Clone, Debug)]
enum Move {
    Submit,
    Refuse,
    /// Syncs this many of the entries handed out.
    Sync(usize),
    FailSync,
    Resume,
    Restart,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => Just(Move::Submit),
        2 => Just(Move::Refuse),
        3 => (0_usize..4).prop_map(Move::Sync),
        1 => Just(Move::FailSync),
        1 => Just(Move::Resume),
        1 => Just(Move::Restart),
    ];
    prop::collection::vec(one, 0..60)
}

/// A shell with a disk that keeps its promises, and judges the replica's.
struct Shell {
    replica: Replica,
    next_token: u64,
    unanswered: BTreeSet<u64>,
    handed_out: Vec<EntryId>,
    durable: EntryId,
    epochs: BTreeSet<u64>,
    named: BTreeSet<EntryId>,
}

impl Shell {
    fn start(&mut self) {
        self.replica = Replica::new();
        self.handed_out.clear();
        self.unanswered.clear();
        let epoch = self.epochs.last().copied().unwrap_or(0);
        self.step(Input::Recovered {
            epoch,
            last: self.durable,
        });
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.replica.step(input, &mut effects);
        for effect in effects {
            match effect {
                Effect::PersistEpoch { epoch, prev } => {
                    assert!(
                        self.epochs.insert(epoch),
                        "epoch {epoch} was adopted before"
                    );
                    assert_eq!(prev, self.durable);
                    self.step(Input::EpochPersisted(epoch));
                }
                Effect::Persist(entry) => {
                    let before = self.handed_out.last().copied().unwrap_or(self.durable);
                    assert_eq!(entry.prev, before);
                    assert!(
                        self.named.insert(entry.id),
                        "{} names two entries",
                        entry.id
                    );
                    assert_eq!(self.epochs.last(), Some(&entry.id.epoch));
                    self.handed_out.push(entry.id);
                }
                Effect::Commit(id) => assert_eq!(id, self.durable),
                Effect::Reply(token) => {
                    assert!(
                        self.unanswered.remove(&token.0),
                        "{token:?} is answered twice"
                    );
                }
                Effect::Fail(token) => {
                    assert!(
                        self.unanswered.remove(&token.0),
                        "{token:?} is answered twice"
                    );
                }
            }
        }
    }

    fn take(&mut self, step: &Move) {
        let token = Token(self.next_token);
        self.next_token += 1;
        match step {
            Move::Submit => {
                self.unanswered.insert(token.0);
                self.step(submit(token));
            }
            Move::Refuse => {
                self.unanswered.insert(token.0);
                let pending = !self.handed_out.is_empty();
                self.step(Input::Refused { token });
                assert_eq!(self.unanswered.contains(&token.0), pending, "I11");
            }
            Move::Sync(count) => {
                let count = (*count).min(self.handed_out.len());
                let synced: Vec<EntryId> = self.handed_out.drain(..count).collect();
                if let Some(&last) = synced.last() {
                    self.durable = last;
                    self.step(Input::Persisted(last));
                }
            }
            Move::FailSync => {
                self.handed_out.clear();
                self.step(Input::PersistFailed);
                assert!(self.unanswered.is_empty(), "someone waits for ever");
            }
            Move::Resume => self.step(Input::Resumed),
            Move::Restart => self.start(),
        }
        if self.handed_out.is_empty() {
            assert!(self.unanswered.is_empty(), "someone waits for nothing");
        }
    }
}

proptest! {
    #[test]
    fn any_run_keeps_the_invariants(moves in moves()) {
        let mut shell = Shell {
            replica: Replica::new(),
            next_token: 0,
            unanswered: BTreeSet::new(),
            handed_out: Vec::new(),
            durable: EntryId::ZERO,
            epochs: BTreeSet::new(),
            named: BTreeSet::new(),
        };
        shell.start();
        moves.iter().for_each(|step| shell.take(step));
    }
}
