//! The scenarios of the model: scopes small enough to be searched to the end.

mod blocks;
mod guards;
mod levels;
mod modes;

use bytes::Bytes;
use fader_chain::{EntryId, Guards, PossibleInputs, Wiring};

use super::bytes::{ByteRule, ByteScope};
use super::client_requests::{
    ClientRequest, delete, keys_of, moved, put, put_if_absent, quorum_read, read, tentative,
};
use super::prelude::Step;

pub(super) use blocks::scenarios as byte_scenarios;

/// Registers of a scenario at most.
pub(super) const KEYS_MAX: usize = 2;

/// How messages arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Any of them at any time, and again.
    AnyOrder,
    /// In order and once, one by one, until the link is cut off.
    InOrder,
    /// In order and once, all that are under way between two members together; what is without
    /// effect is not under way (docs/internals/testing.md).
    Together,
}

/// How far a search goes, and over what.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// How entries travel.
    pub wiring: Wiring,
    /// Members of the first configuration.
    pub members: usize,
    /// Members that may join beside them.
    pub spares: usize,
    /// The requests, each invoked at most once.
    pub asks: Vec<ClientRequest>,
    /// How often a request that was invoked may arrive again.
    pub retries: u8,
    /// How many members may crash; their disks stay.
    pub crashes: u8,
    /// How many leases may end while the member lives.
    pub lease_ends: u8,
    /// How many crashed or expired members may come back.
    pub returns: u8,
    /// How many moves of the head's role, or to the back, may be published.
    pub moves: u8,
    /// How often the safe point may be raised.
    pub safe_points: u8,
    /// The greatest epoch.
    pub epochs: u64,
    /// Whether a crash loses what was not synced, and syncs are steps.
    pub loses_unsynced: bool,
    /// Whether every merge searches it.
    pub is_quick: bool,
    /// How messages arrive.
    pub delivery: Delivery,
    /// Entries kept after they were applied; none makes every return a filling.
    pub window: usize,
    /// Whether members also say again what was not answered for a while.
    pub ticks: bool,
    /// How many moments may pass.
    pub moments: u8,
    /// How often all that is under way from one member to another may be lost; nothing is said
    /// again then, but with ticks.
    pub losses: u8,
    /// Requests that wait for the answer to others: the later one, and what it waits for.
    pub follows: Vec<(usize, usize)>,
    /// Requests that only this member is asked.
    pub places: Vec<(usize, usize)>,
    /// Whether the registers are in a collection whose mode is asked for; `strong` at first.
    pub has_modes: bool,
    /// Of the simulator's service: nothing may make a register greater than this.
    pub pairs_max: usize,
    /// By how much the numbers in the names of successive requests differ.
    pub stride: u64,
    /// A request whose session claims to have seen this base, which no head has numbered (PR-2).
    pub forged: Option<(usize, EntryId)>,
    /// What happens before the search.
    pub prelude: Vec<Step>,
    /// The bytes of a block, whose row is put and removed: the search is then for liveness, too.
    pub bytes: Option<ByteScope>,
}

impl Scenario {
    /// The same without a rule of those who carry bytes.
    #[must_use]
    pub fn without(&self, rule: ByteRule) -> Self {
        let without = |bytes: ByteScope| ByteScope {
            without: Some(rule),
            ..bytes
        };
        Scenario {
            bytes: self.bytes.map(without),
            ..self.clone()
        }
    }
}

/// A scenario, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct PreparedScenario {
    pub(super) scenario: Scenario,
    pub(super) guards: Guards,
    /// All registers.
    pub(super) keys: Vec<Bytes>,
}

impl PreparedScenario {
    pub(super) fn new(scenario: &Scenario, guards: &Guards) -> Self {
        let keys = scenario.asks.iter().flat_map(keys_of).cloned();
        let mut keys: Vec<Bytes> = keys.collect();
        keys.sort();
        keys.dedup();
        PreparedScenario {
            scenario: scenario.clone(),
            guards: guards.clone(),
            keys,
        }
    }

    /// What may come to a member.
    pub(super) fn ahead(&self) -> PossibleInputs {
        let scenario = &self.scenario;
        let asks = &scenario.asks;
        let gathers = |ask: &ClientRequest| ask.is_barrier() || *ask == ClientRequest::Close;
        PossibleInputs {
            writes: asks.iter().any(ClientRequest::is_eventual_write),
            claims: self.claims() || asks.iter().any(gathers),
            retries: 0 < scenario.retries,
            time: scenario.ticks || 0 < scenario.safe_points || 0 < scenario.moments,
        }
    }

    /// Whether a safe point rises, in the search or before.
    pub(super) fn raises_safe_point(&self) -> bool {
        0 < self.scenario.safe_points || self.scenario.prelude.contains(&Step::Floor)
    }

    /// Whether any request claims a quorum.
    pub(super) fn claims(&self) -> bool {
        self.scenario.asks.iter().any(|ask| ask.quorum().is_some())
    }

    /// The number that the request in this place has in its name.
    pub(super) fn seq(&self, ask: usize) -> u64 {
        ask as u64 * self.scenario.stride + 1
    }

    /// The place of the request with this number in its name.
    pub(super) fn ask_of(&self, seq: u64) -> usize {
        ((seq - 1) / self.scenario.stride) as usize
    }

    /// The place of `key` among the registers.
    pub(super) fn place(&self, key: &Bytes) -> usize {
        let place = self.keys.binary_search(key);
        place.expect("requests are about registers of the scenario")
    }
}

fn plain(name: &'static str, wiring: Wiring, asks: Vec<ClientRequest>) -> Scenario {
    Scenario {
        name,
        wiring,
        members: 3,
        spares: 0,
        asks,
        retries: 0,
        crashes: 0,
        lease_ends: 0,
        returns: 0,
        moves: 0,
        safe_points: 0,
        epochs: 1,
        loses_unsynced: false,
        is_quick: false,
        delivery: Delivery::Together,
        window: 8,
        ticks: false,
        moments: 0,
        losses: 0,
        follows: Vec::new(),
        places: Vec::new(),
        has_modes: false,
        pairs_max: usize::MAX,
        stride: 1,
        forged: None,
        prelude: Vec::new(),
        bytes: None,
    }
}

/// All scenarios: each in both wirings.
pub fn scenarios() -> Vec<Scenario> {
    [Wiring::Star, Wiring::Chain]
        .into_iter()
        .flat_map(|wiring| {
            let sets: [fn(Wiring) -> Vec<Scenario>; 14] = [
                normal,
                changing,
                larger,
                further,
                levels::barriers,
                levels::bounds,
                levels::elements,
                modes::modes,
                guards::small,
                guards::quorums,
                guards::filters,
                guards::marks,
                guards::heads,
                whole,
            ];
            let quick = sets.into_iter().flat_map(move |set| set(wiring));
            let quick = quick.map(|scenario| Scenario {
                is_quick: true,
                ..scenario
            });
            quick.chain(slow(wiring))
        })
        .collect()
}

/// The name of a scenario in a wiring.
fn name(wiring: Wiring, names: [&'static str; 2]) -> &'static str {
    match wiring {
        Wiring::Star => names[0],
        Wiring::Chain => names[1],
    }
}

/// No member fails.
fn normal(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        scenario(
            ["star-reads", "chain-reads"],
            vec![put("k", "a"), put("k", "b"), read("k")],
        ),
        scenario(
            ["star-transactions", "chain-transactions"],
            vec![put("k", "a"), moved("k", "l"), put("k", "b")],
        ),
        Scenario {
            retries: 1,
            ..scenario(
                ["star-conditions", "chain-conditions"],
                vec![
                    put_if_absent("k", "a"),
                    put_if_absent("k", "b"),
                    delete("k"),
                ],
            )
        },
        // WR-3, MEMLOG-1: entries come late, early and again.
        Scenario {
            members: 2,
            delivery: Delivery::AnyOrder,
            ..scenario(
                ["star-any-order", "chain-any-order"],
                vec![put("k", "a"), put("k", "b")],
            )
        },
        Scenario {
            members: 2,
            ticks: true,
            ..scenario(
                ["star-mixed", "chain-mixed"],
                vec![put("k", "a"), tentative("k", "e", 1)],
            )
        },
    ]
}

/// Members go and come.
fn changing(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        Scenario {
            crashes: 1,
            retries: 1,
            epochs: 2,
            ..scenario(
                ["star-crash", "chain-crash"],
                vec![put("k", "a"), put_if_absent("k", "b")],
            )
        },
        Scenario {
            lease_ends: 1,
            epochs: 2,
            ..scenario(
                ["star-lease", "chain-lease"],
                vec![put("k", "a"), put_if_absent("k", "b")],
            )
        },
        Scenario {
            members: 2,
            moves: 2,
            epochs: 3,
            ..scenario(
                ["star-moves", "chain-moves"],
                vec![put("k", "a"), put("k", "b")],
            )
        },
        Scenario {
            members: 2,
            moves: 2,
            epochs: 3,
            ..scenario(
                ["star-moves-mixed", "chain-moves-mixed"],
                vec![put("k", "a"), put("k", "b"), tentative("k", "e", 1)],
            )
        },
        // TRACE-13: both crash, and lose what was not synced.
        Scenario {
            members: 2,
            crashes: 2,
            returns: 1,
            epochs: 3,
            loses_unsynced: true,
            ..scenario(["star-all-down", "chain-all-down"], vec![put("k", "a")])
        },
        Scenario {
            members: 2,
            lease_ends: 1,
            returns: 1,
            epochs: 4,
            ..scenario(["star-rejoin", "chain-rejoin"], vec![put("k", "a")])
        },
        Scenario {
            members: 2,
            lease_ends: 1,
            returns: 1,
            epochs: 4,
            window: 0,
            ..scenario(
                ["star-rejoin-state", "chain-rejoin-state"],
                vec![put("k", "a")],
            )
        },
    ]
}

/// Members go and come, of larger scope.
fn larger(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        Scenario {
            moves: 1,
            epochs: 2,
            ..scenario(
                ["star-moves-three", "chain-moves-three"],
                vec![put("k", "a"), put("k", "b")],
            )
        },
        // RD-5: the commit point crashes while it is asked.
        Scenario {
            crashes: 1,
            retries: 1,
            epochs: 2,
            ..scenario(
                ["star-crash-read", "chain-crash-read"],
                vec![put("k", "a"), put_if_absent("k", "b"), read("k")],
            )
        },
        Scenario {
            members: 1,
            spares: 1,
            crashes: 1,
            epochs: 4,
            window: 0,
            ..scenario(
                ["star-join-state", "chain-join-state"],
                vec![put("k", "a"), put("k", "b")],
            )
        },
        Scenario {
            crashes: 1,
            epochs: 2,
            ..scenario(
                ["star-quorum-crash", "chain-quorum-crash"],
                vec![tentative("k", "e", 2), quorum_read("k", 1)],
            )
        },
        Scenario {
            members: 2,
            retries: 1,
            ..scenario(
                ["star-mixed-retry", "chain-mixed-retry"],
                vec![put("k", "a"), tentative("k", "e", 1)],
            )
        },
        Scenario {
            members: 2,
            crashes: 1,
            returns: 1,
            epochs: 4,
            ..scenario(
                ["star-mixed-rejoin", "chain-mixed-rejoin"],
                vec![put("k", "a"), tentative("k", "e", 1)],
            )
        },
    ]
}

/// What takes seconds, of rules beside writes and reads of one register.
fn further(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        Scenario {
            members: 2,
            crashes: 1,
            returns: 1,
            epochs: 4,
            ..scenario(
                ["star-rejoin-move", "chain-rejoin-move"],
                vec![put("k", "a"), moved("k", "l")],
            )
        },
        Scenario {
            members: 2,
            crashes: 1,
            returns: 1,
            epochs: 4,
            window: 0,
            ..scenario(
                ["star-rejoin-fill", "chain-rejoin-fill"],
                vec![put("k l", "a"), put("k", "b"), tentative("l", "e", 1)],
            )
        },
        Scenario {
            members: 2,
            safe_points: 1,
            epochs: 2,
            ticks: true,
            ..scenario(
                ["star-safe-point", "chain-safe-point"],
                vec![tentative("k", "e", 1), delete("k")],
            )
        },
        // AD-8: members go on before they are greeted in an epoch that raises the safe point only.
        Scenario {
            members: 2,
            safe_points: 1,
            epochs: 2,
            ..scenario(
                ["star-safe-point-write", "chain-safe-point-write"],
                vec![put("k", "a"), tentative("k", "e", 1), put("k", "b")],
            )
        },
        Scenario {
            members: 2,
            safe_points: 1,
            epochs: 2,
            ..scenario(
                ["star-safe-point-read", "chain-safe-point-read"],
                vec![put("k", "a"), tentative("k", "e", 2), quorum_read("k", 1)],
            )
        },
    ]
}

/// What the whole is for: strong and eventual writers of two registers, while a member crashes and
/// comes back.
fn whole(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| Scenario {
        crashes: 1,
        returns: 1,
        epochs: 4,
        ..plain(name(wiring, names), wiring, asks)
    };
    vec![
        scenario(
            ["star-whole", "chain-whole"],
            vec![put("k l", "a"), tentative("k l", "e", 1)],
        ),
        scenario(
            ["star-rejoin-three", "chain-rejoin-three"],
            vec![put("k", "a"), put("l", "b")],
        ),
        scenario(
            ["star-rejoin-tentative", "chain-rejoin-tentative"],
            vec![tentative("k", "e", 1)],
        ),
    ]
}

/// What takes minutes.
fn slow(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        Scenario {
            members: 4,
            ..scenario(
                ["star-four", "chain-four"],
                vec![put("k", "a"), put("k", "b"), tentative("k", "e", 2)],
            )
        },
        Scenario {
            crashes: 1,
            returns: 1,
            epochs: 4,
            ..scenario(
                ["star-rejoin-mixed", "chain-rejoin-mixed"],
                vec![put("k", "a"), tentative("k", "e", 1)],
            )
        },
    ]
}
