//! One block, whose bytes come apart from its row: the checked note's scopes, on the real replica.

use fader_chain::Wiring;

use super::super::bytes::{ByteRule, ByteScope};
use super::super::client_requests::{put_row, remove_row};
use super::{Scenario, name, plain};

/// What happens to bytes where nothing is said.
const BYTES: ByteScope = ByteScope {
    without: None,
    deliveries: 1,
    drops: 0,
    sets_back: false,
    tells: &[],
};

/// All scopes, each in both wirings.
pub(in crate::model) fn scenarios() -> Vec<Scenario> {
    let wirings = [Wiring::Star, Wiring::Chain].into_iter();
    wirings
        .flat_map(|wiring| {
            let quick = quick(wiring).into_iter().map(|scenario| Scenario {
                is_quick: true,
                ..scenario
            });
            quick.chain(slow(wiring))
        })
        .collect()
}

fn scope(wiring: Wiring, names: [&'static str; 2]) -> Scenario {
    Scenario {
        members: 2,
        epochs: u64::MAX,
        bytes: Some(BYTES),
        ..plain(name(wiring, names), wiring, vec![put_row(), remove_row()])
    }
}

fn crash(wiring: Wiring, names: [&'static str; 2]) -> Scenario {
    Scenario {
        crashes: 1,
        returns: 1,
        loses_unsynced: true,
        bytes: Some(ByteScope {
            sets_back: true,
            ..BYTES
        }),
        ..scope(wiring, names)
    }
}

/// What every merge searches.
fn quick(wiring: Wiring) -> Vec<Scenario> {
    vec![
        Scenario {
            bytes: Some(ByteScope {
                tells: &[
                    ByteRule::Gate,
                    ByteRule::Outside,
                    ByteRule::Fetch,
                    ByteRule::OwnBytes,
                    ByteRule::KeepLogged,
                    ByteRule::KeepRemoved,
                ],
                ..BYTES
            }),
            ..scope(wiring, ["star-two", "chain-two"])
        },
        Scenario {
            bytes: Some(ByteScope {
                tells: &[ByteRule::FillGate, ByteRule::Floor],
                ..BYTES
            }),
            lease_ends: 1,
            returns: 1,
            ..scope(wiring, ["star-leave-two", "chain-leave-two"])
        },
        Scenario {
            bytes: Some(ByteScope {
                tells: &[ByteRule::Gone],
                ..BYTES
            }),
            spares: 1,
            ..scope(wiring, ["star-join", "chain-join"])
        },
        Scenario {
            bytes: Some(ByteScope {
                sets_back: true,
                tells: &[ByteRule::ByState],
                ..BYTES
            }),
            ..crash(wiring, ["star-crash", "chain-crash"])
        },
    ]
}

/// What takes longer. A member is filled with a state where it left, too.
fn slow(wiring: Wiring) -> Vec<Scenario> {
    vec![
        Scenario {
            spares: 1,
            window: 0,
            ..scope(wiring, ["star-fill", "chain-fill"])
        },
        Scenario {
            window: 0,
            ..crash(wiring, ["star-crash-fill", "chain-crash-fill"])
        },
        Scenario {
            spares: 1,
            bytes: Some(ByteScope {
                deliveries: 2,
                drops: 1,
                ..BYTES
            }),
            ..scope(wiring, ["star-drop", "chain-drop"])
        },
        Scenario {
            members: 3,
            lease_ends: 1,
            returns: 1,
            ..scope(wiring, ["star-leave", "chain-leave"])
        },
        Scenario {
            crashes: 2,
            returns: 2,
            bytes: Some(ByteScope {
                tells: &[ByteRule::Epoch],
                ..BYTES
            }),
            ..crash(wiring, ["star-down", "chain-down"])
        },
        Scenario {
            members: 3,
            ..crash(wiring, ["star-three", "chain-three"])
        },
        Scenario {
            spares: 1,
            ..crash(wiring, ["star-crash-join", "chain-crash-join"])
        },
    ]
}
