//! Changes of mode (docs/internals/protocol/reconfiguration.md, section 9). Keys are of a
//! collection.

use fader_chain::{Mode, Wiring};

use super::super::client_requests::{ClientRequest, delete, put, tentative, turn};
use super::super::prelude::Step;
use super::{Scenario, name, plain};

/// Mixed to strong, while a member that lags writes eventually.
fn draining() -> Vec<ClientRequest> {
    vec![
        turn(Mode::Mixed),
        tentative("cart-one/k", "e", 1),
        turn(Mode::Strong),
        ClientRequest::Close,
    ]
}

pub(super) fn modes(wiring: Wiring) -> Vec<Scenario> {
    let scenario = |names, asks| Scenario {
        has_modes: true,
        prelude: vec![Step::Ask(0, 0), Step::Run],
        ..plain(name(wiring, names), wiring, asks)
    };
    vec![
        // What was acknowledged is settled, whenever the operator asks for the next step.
        scenario(["star-mode-close", "chain-mode-close"], draining()),
        // The same, where something is lost: what is said later is heard without it.
        Scenario {
            members: 2,
            losses: 1,
            ..scenario(
                ["star-mode-close-loss", "chain-mode-close-loss"],
                draining(),
            )
        },
        // The same, while a member crashes and comes back.
        Scenario {
            members: 2,
            crashes: 1,
            returns: 1,
            epochs: 4,
            ..scenario(
                ["star-mode-close-rejoin", "chain-mode-close-rejoin"],
                draining(),
            )
        },
        // There, back without a member that holds something, and there again. What it hands off
        // then is of another time, and what was removed since left no tombstone.
        Scenario {
            members: 2,
            crashes: 1,
            returns: 1,
            epochs: 4,
            follows: vec![(3, 2), (4, 3), (5, 4), (6, 5), (7, 6)],
            places: vec![(1, 1)],
            ..scenario(
                ["star-mode-there-and-back", "chain-mode-there-and-back"],
                vec![
                    turn(Mode::Mixed),
                    tentative("cart-one/k", "e", 1),
                    ClientRequest::Turn {
                        mode: Mode::Strong,
                        abandon: true,
                    },
                    ClientRequest::Close,
                    put("cart-one/k", "a"),
                    delete("cart-one/k"),
                    ClientRequest::Close,
                    turn(Mode::Mixed),
                ],
            )
        },
    ]
}
