//! Barriers, bounds, and writers of elements.

use fader_chain::{Level, Wiring};

use super::super::client_requests::{
    barrier_put_if_absent, change, change_if_exists, merge, put, read_at, tentative,
};
use super::{Scenario, name, plain};

/// What is done behind a barrier takes note of everything tentative (G8).
pub(super) fn barriers(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        scenario(
            ["star-barrier", "chain-barrier"],
            vec![
                put("k", "a"),
                tentative("k", "e", 1),
                read_at("k", Level::Barrier),
            ],
        ),
        scenario(
            ["star-barrier-condition", "chain-barrier-condition"],
            vec![tentative("k", "e", 1), barrier_put_if_absent("k", "b")],
        ),
        Scenario {
            crashes: 1,
            epochs: 2,
            ..scenario(
                ["star-barrier-crash", "chain-barrier-crash"],
                vec![tentative("k", "e", 2), read_at("k", Level::Barrier)],
            )
        },
    ]
}

/// What a bounded read may hide (semantics.md, section 8).
pub(super) fn bounds(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        Scenario {
            lease_ends: 1,
            epochs: 2,
            ..scenario(
                ["star-bound-versions", "chain-bound-versions"],
                vec![
                    put("k", "a"),
                    put("k", "b"),
                    read_at("k", Level::BoundVersions(1)),
                ],
            )
        },
        Scenario {
            lease_ends: 1,
            epochs: 2,
            moments: 2,
            ..scenario(
                ["star-bound-millis", "chain-bound-millis"],
                vec![put("k", "a"), read_at("k", Level::BoundMillis(10))],
            )
        },
    ]
}

/// Strong and eventual writers of different attributes and values of one item.
pub(super) fn elements(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| plain(name(wiring, names), wiring, asks);
    vec![
        scenario(
            ["star-elements", "chain-elements"],
            vec![
                change("k", "=a x, +b y"),
                merge("k", "=a z", 1),
                merge("k", "+b w, -b y", 1),
            ],
        ),
        Scenario {
            members: 2,
            ..scenario(
                ["star-elements-two", "chain-elements-two"],
                vec![
                    change_if_exists("k", "=a x"),
                    change("k", "-b y"),
                    merge("k", "+a u, +b y", 1),
                    merge("k", "=a z", 1),
                ],
            )
        },
        Scenario {
            members: 2,
            pairs_max: 2,
            ..scenario(
                ["star-elements-limit", "chain-elements-limit"],
                vec![
                    change("k", "+a x, +b y"),
                    merge("k", "=a z, +c u", 1),
                    merge("k", "=b v", 1),
                ],
            )
        },
    ]
}
