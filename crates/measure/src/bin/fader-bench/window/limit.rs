//! The bound that stands beside each row.

use fader_simulator::traffic::{Kind, Shape};

/// Goodput, of the capacity, that goes with a share of refused requests.
///
/// Slots without a queue lose what comes while all are busy: for requests that come at random this
/// is Erlang's formula. Requests that come evenly can do better.
pub(super) fn goodput(shape: &Shape, refused: f64) -> f64 {
    match shape.kind {
        Kind::Slots { slots, queue: 0 } => carried(slots, refused) / f64::from(slots),
        _ => 1.0,
    }
}

/// Busy slots, on average, where this share of requests that come at random is refused.
fn carried(slots: u32, refused: f64) -> f64 {
    let (mut low, mut high) = (0.0, 100.0 * f64::from(slots));
    for _ in 0..100 {
        let offered = f64::midpoint(low, high);
        match erlang(slots, offered) < refused {
            true => low = offered,
            false => high = offered,
        }
    }
    low * (1.0 - refused)
}

/// Erlang's formula: the share that finds all slots busy.
fn erlang(slots: u32, offered: f64) -> f64 {
    (1..=slots).fold(1.0, |lost, slot| {
        offered * lost / (f64::from(slot) + offered * lost)
    })
}
