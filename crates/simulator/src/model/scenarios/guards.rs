//! Scenarios that are there for one rule each: without it, something in them goes wrong
//! (docs/internals/protocol/invariants.md names the guards).

use fader_chain::{EntryId, Wiring};

use super::super::client_requests::{ClientRequest, change, merge, put, quorum_read, tentative};
use super::super::prelude::Step;
use super::{Scenario, name, plain};

/// Names and stamps.
pub(super) fn small(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        // XO-3: the head's entry reaches one member, is cut there, and is asked for again.
        Scenario {
            crashes: 1,
            moves: 1,
            retries: 1,
            epochs: 3,
            ..scenario(["star-cut", "chain-cut"], vec![put("k", "a")])
        },
        // XO-4: the result of the first is gone, since the second has a much greater number and the
        // safe point is above. Then the first comes again.
        Scenario {
            members: 2,
            retries: 1,
            safe_points: 1,
            epochs: 2,
            stride: 2_000,
            prelude: vec![
                Step::Ask(0, 1),
                Step::Run,
                Step::Tick(0),
                Step::Tick(1),
                Step::Floor,
                Step::Run,
                Step::Ask(1, 0),
                Step::Run,
            ],
            ..scenario(
                ["star-window", "chain-window"],
                vec![tentative("k", "e", 1), put("k", "a")],
            )
        },
        // PR-2: a session that lies about what it has seen.
        Scenario {
            members: 2,
            forged: Some((1, EntryId::new(7, 7))),
            ..scenario(
                ["star-forged", "chain-forged"],
                vec![put("k", "a"), tentative("k", "e", 1)],
            )
        },
        // I18: a member stamps before and after a restart.
        Scenario {
            members: 2,
            crashes: 1,
            returns: 1,
            epochs: 4,
            places: vec![(0, 1), (1, 1)],
            follows: vec![(1, 0)],
            ..scenario(
                ["star-restart", "chain-restart"],
                vec![tentative("k", "e", 1), tentative("l", "f", 1)],
            )
        },
    ]
}

/// Quorums across epochs.
pub(super) fn quorums(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        // EX-2: a member that has not heard of the joining one meets the quorum of before.
        Scenario {
            members: 2,
            spares: 1,
            epochs: 2,
            ..scenario(
                ["star-quorum-join", "chain-quorum-join"],
                vec![tentative("k", "e", 2), quorum_read("k", 1)],
            )
        },
        // EX-3: a reader has moved on with one of the others, and the third holds on.
        Scenario {
            moves: 1,
            epochs: 2,
            ..scenario(
                ["star-quorum-move", "chain-quorum-move"],
                vec![tentative("k", "e", 2), quorum_read("k", 2)],
            )
        },
        // EX-1: overlays are heard, the commit that emptied them is not.
        Scenario {
            crashes: 1,
            epochs: 2,
            losses: 1,
            ..scenario(
                ["star-quorum-loss", "chain-quorum-loss"],
                vec![tentative("k", "e", 2), quorum_read("k", 1)],
            )
        },
    ]
}

/// Members that return with operations that were removed since, below the safe point.
pub(super) fn filters(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks: Vec<ClientRequest>| Scenario {
        members: 2,
        returns: 1,
        epochs: 6,
        ..plain(name(wiring, names), wiring, asks)
    };
    let collected = |place: usize| {
        vec![
            Step::Run,
            Step::Tick(place),
            Step::Floor,
            Step::Run,
            Step::Tick(place),
            Step::Run,
        ]
    };
    vec![
        // D8: what the second holds is removed from an item that stays, and the mark is collected.
        Scenario {
            prelude: [
                vec![
                    Step::Ask(0, 0),
                    Step::Run,
                    Step::Ask(1, 1),
                    Step::CrashSilently(1),
                    Step::Run,
                    Step::Ask(2, 0),
                ],
                collected(0),
                vec![Step::Ask(3, 0), Step::Run],
            ]
            .concat(),
            ..scenario(
                ["star-filter", "chain-filter"],
                vec![
                    change("k", "+a x"),
                    merge("k", "+b y", 1),
                    change("k", "-b y"),
                    change("k", "+a z"),
                ],
            )
        },
        // TRACE-7: the first has entries that no other member gets. So what it holds was accepted
        // at a greater index than the safe point's, and at a smaller id.
        Scenario {
            prelude: [
                vec![
                    Step::Ask(0, 0),
                    Step::Run,
                    Step::Ask(4, 0),
                    Step::Ask(5, 0),
                    Step::Ask(1, 0),
                    Step::CrashSilently(0),
                    Step::Run,
                    Step::Ask(2, 1),
                ],
                collected(1),
                vec![Step::Ask(3, 1), Step::Run],
            ]
            .concat(),
            ..scenario(
                ["star-filter-ids", "chain-filter-ids"],
                vec![
                    change("k", "+a x"),
                    merge("k", "+b y", 1),
                    change("k", "-b y"),
                    change("k", "+a z"),
                    change("l", "+a u"),
                    change("l", "+a v"),
                ],
            )
        },
    ]
}

/// Marks are collected beside operations that are not settled.
pub(super) fn marks(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks: Vec<ClientRequest>| Scenario {
        epochs: 6,
        ..plain(name(wiring, names), wiring, asks)
    };
    vec![
        // D7: what removes an addition is settled before it, with a stamp below the safe point.
        Scenario {
            prelude: vec![
                Step::Ask(0, 0),
                Step::Run,
                Step::Ask(1, 0),
                Step::Run,
                Step::Ask(2, 1),
                Step::Silence(1),
                Step::Ask(3, 2),
                Step::Silence(2),
                Step::Tick(0),
                Step::Tick(1),
                Step::Silence(1),
                Step::Tick(2),
                Step::Silence(2),
                Step::Silence(0),
                Step::Floor,
                Step::RunWithout(1),
                Step::Tick(0),
            ],
            ..scenario(
                ["star-collect", "chain-collect"],
                vec![
                    change("k", "+a x"),
                    change("l", "+a x"),
                    merge("k", "+b y", 1),
                    merge("k", "-b y", 1),
                ],
            )
        },
    ]
}

/// Heads that have not heard of each other.
pub(super) fn heads(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    // EV-5: a member that was head before and is again does not know who was meanwhile.
    vec![Scenario {
        members: 2,
        moves: 2,
        epochs: 4,
        prelude: vec![
            Step::Ask(0, 0),
            Step::Run,
            Step::Head(1),
            Step::RunWithout(0),
        ],
        ..scenario(
            ["star-skip", "chain-skip"],
            vec![
                put("k", "a"),
                put("k", "b"),
                put("k", "c"),
                tentative("k", "e", 1),
            ],
        )
    }]
}
