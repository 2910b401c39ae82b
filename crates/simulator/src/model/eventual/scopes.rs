//! The scopes of eventual puts: the checked note's list.

use fader_chain::Guard;

/// A rule of those who take, settle and end eventual puts, which a search can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum EventualRule {
    /// SE-4: no member takes a put of a closed attempt.
    Closed,
    /// SE-4: also where the entry that closes it is logged and not applied.
    Logged,
    /// COLLECT-5: a closed attempt ends when the safe point has passed what closed it.
    EndSafePoint,
    /// COLLECT-5: and behind a barrier.
    Barrier,
    /// COLLECT-5: which begins when the safe point has passed that.
    BarrierSafePoint,
    /// SE-2: what a promotion replaces is found on the newest state.
    SettleNewest,
    /// SE-6: a promotion names blocks that have their rows.
    SettleRows,
}

impl EventualRule {
    /// All rules.
    pub const ALL: [EventualRule; 7] = [
        EventualRule::Closed,
        EventualRule::Logged,
        EventualRule::EndSafePoint,
        EventualRule::Barrier,
        EventualRule::BarrierSafePoint,
        EventualRule::SettleNewest,
        EventualRule::SettleRows,
    ];
}

/// What happens in a scope.
#[derive(Clone, Debug)]
pub struct EventualScope {
    /// Its name.
    pub name: &'static str,
    /// How often the member leaves.
    pub leaves: u8,
    /// Strong puts of the key.
    pub strong_puts: u8,
    /// Other entries.
    pub others: u8,
    /// Whether the client of the eventual put may have seen what the head logged last.
    pub has_token: bool,
    /// Whether the bucket is deleted and made again.
    pub remakes: bool,
    /// Whether every merge searches it.
    pub is_quick: bool,
    /// The rules that it tells the absence of.
    pub tells: &'static [EventualRule],
    /// The guards that it tells the absence of.
    pub tells_guards: &'static [Guard],
}

const PLAIN: EventualScope = EventualScope {
    name: "",
    leaves: 0,
    strong_puts: 0,
    others: 0,
    has_token: false,
    remakes: false,
    is_quick: true,
    tells: &[],
    tells_guards: &[],
};

/// All scopes.
pub(in crate::model) fn scopes() -> Vec<EventualScope> {
    use EventualRule::*;
    vec![
        EventualScope {
            name: "eventual-still",
            strong_puts: 1,
            tells: &[Closed, Barrier, SettleNewest],
            tells_guards: &[Guard::S3Close],
            ..PLAIN
        },
        EventualScope {
            name: "eventual-away",
            leaves: 1,
            others: 1,
            tells: &[Logged, EndSafePoint, BarrierSafePoint],
            ..PLAIN
        },
        EventualScope {
            name: "eventual-token",
            leaves: 1,
            others: 1,
            has_token: true,
            tells: &[SettleRows],
            ..PLAIN
        },
        EventualScope {
            name: "eventual-bucket",
            leaves: 1,
            remakes: true,
            ..PLAIN
        },
        EventualScope {
            name: "eventual-away-strong",
            leaves: 1,
            strong_puts: 1,
            others: 1,
            is_quick: false,
            ..PLAIN
        },
        EventualScope {
            name: "eventual-away-twice",
            leaves: 2,
            others: 1,
            has_token: true,
            is_quick: false,
            ..PLAIN
        },
    ]
}
