//! Profiles: runs that are about one part of the protocol. Who draws everything at once seldom
//! draws what a rare case needs together.
//!
//! A profile has its own stream of numbers, and puts its own clients and faults in the place of a
//! plan's. Network, disks and the kind of run stay as they were drawn.

mod orders;

use self::orders::clients;
use super::decommission;
use super::moves;
use super::network::Kind;
use super::operator;
use super::plan::{Choice, Fault, Micros, Mode, Plan};
use super::random::Random;
use super::stops;

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunProfile {
    /// Members go with operations that they alone hold, and return when marks are collected.
    Returns,
    /// Quorums while members come and go.
    Quorums,
    /// A collection closes and opens while members hold operations.
    Closings,
    /// Clocks that are put back while processes die.
    Clocks,
    /// Requests that are asked again, late.
    Names,
    /// Members are filled, slowly.
    Fills,
    /// Heads that change.
    Heads,
    /// The safe point rises as often as it can, while engines lag and members are filled.
    SafePoints,
    /// Copies of disks are put back, and all go down.
    Copies,
    /// Members are decommissioned while they hold operations. Not drawn: what seeds draw stays.
    Leavings,
    /// The head's role moves between live members, some of which do not hear of it. Not drawn.
    Moves,
    /// Names that are used for other requests too. Not drawn.
    Borrowings,
    /// Members that are to leave, and to stay after all when they have left. Not drawn.
    Retractions,
    /// Controllers that are slow, and race, while members come and go. Not drawn.
    Races,
    /// Clients that are idle, of which nothing is kept. Not drawn.
    Idlers,
    /// Machines that stand still with their clocks. Not drawn.
    Stops,
}

impl RunProfile {
    /// All of them.
    pub const ALL: [RunProfile; 16] = [
        RunProfile::Returns,
        RunProfile::Quorums,
        RunProfile::Closings,
        RunProfile::Clocks,
        RunProfile::Names,
        RunProfile::Fills,
        RunProfile::Heads,
        RunProfile::SafePoints,
        RunProfile::Copies,
        RunProfile::Leavings,
        RunProfile::Moves,
        RunProfile::Borrowings,
        RunProfile::Retractions,
        RunProfile::Races,
        RunProfile::Idlers,
        RunProfile::Stops,
    ];
    /// Those that seeds draw; later ones are asked for by name, so that seeds stay what they are.
    const DRAWN: usize = 7;

    /// Its name, and what runs are about, for people.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            RunProfile::Returns => (
                "returns",
                "Members return with what they alone held, after marks were collected",
            ),
            RunProfile::Quorums => ("quorums", "Quorums while members come and go"),
            RunProfile::Closings => ("closings", "A collection closes and opens"),
            RunProfile::Clocks => ("clocks", "Clocks are put back while processes die"),
            RunProfile::Names => ("names", "Requests are asked again, late"),
            RunProfile::Fills => ("fills", "Members are filled, slowly"),
            RunProfile::Heads => ("heads", "Heads change"),
            RunProfile::SafePoints => ("safe-points", "The safe point rises as often as it can"),
            RunProfile::Copies => ("copies", "Copies of disks are put back"),
            RunProfile::Leavings => ("leavings", "Members leave for good"),
            RunProfile::Moves => ("moves", "The head moves, and does not hear of it"),
            RunProfile::Borrowings => ("borrowings", "Names are used for other requests too"),
            RunProfile::Retractions => {
                ("retractions", "Who has left for good is to stay after all")
            }
            RunProfile::Idlers => ("idlers", "Clients are idle, and forgotten"),
            RunProfile::Stops => ("stops", "Machines stand still with their clocks"),
            RunProfile::Races => ("races", "Slow controllers race while members come and go"),
        }
    }
}

/// The profile of a seed, if it has one.
pub(super) fn drawn(seed: u64, choice: &Choice) -> Option<RunProfile> {
    let mut random = Random::new(seed ^ 0x7468_656d_6573);
    let is_free = choice.mixed.is_none() && choice.modes.is_none();
    let profile = *random.pick(&RunProfile::ALL[..RunProfile::DRAWN]);
    (is_free && random.chance(300)).then_some(profile)
}

/// Makes `plan` one about `profile`.
pub(super) fn shape(plan: &mut Plan, profile: RunProfile) {
    let mut random = Random::new(plan.seed ^ 0x7468_656d_6521);
    let random = &mut random;
    plan.calm_at = random.between(2_000_000, 4_000_000);
    if random.chance(400) {
        plan.work_max = *random.pick(&[20_000, 100_000, 400_000]);
        plan.work_rest = *random.pick(&[100, 20_000, 60_000]);
    }
    if profile == RunProfile::Names {
        plan.stride = *random.pick(&[1, 200, 300, 600]);
    }
    // What is stamped under a lease that should be none is not told apart: strong operations only.
    (plan.stops, plan.mixed) = (profile == RunProfile::Stops, profile != RunProfile::Stops);
    if profile == RunProfile::Races {
        plan.controllers = random.between(3, 5) as usize;
        plan.control_max = *random.pick(&[100_000, 300_000, 600_000]);
    }
    plan.clients = clients(plan, profile, random);
    if profile == RunProfile::Idlers {
        // No client asks again, not even when quiescent: what is settled twice was settled twice by
        // members.
        plan.mode = Mode::Safety;
        // Longer than any client waits for an answer.
        plan.idle_ms = *random.pick(&[800, 1_000]);
        plan.calm_at = 5_000_000;
        let orders = plan.clients.iter_mut().flatten();
        orders.for_each(|order| order.retries = 0);
    }
    plan.faults = match profile {
        RunProfile::Returns | RunProfile::Closings => returns(plan, profile, random),
        RunProfile::SafePoints => safe_points(plan, random),
        RunProfile::Idlers if random.chance(600) => safe_points(plan, random),
        RunProfile::Idlers => returns(plan, profile, random),
        RunProfile::Copies => copies(plan, random),
        RunProfile::Leavings => {
            let mut faults = shower(plan, profile, random);
            decommission::add(&mut faults, plan, random);
            faults
        }
        RunProfile::Moves => moves::faults(plan, random),
        RunProfile::Stops => stops::faults(plan, random),
        RunProfile::Retractions => decommission::taken_back(plan, random),
        _ => shower(plan, profile, random),
    };
    plan.faults.sort_by_key(|(at, _)| *at);
    if profile == RunProfile::Closings {
        plan.wishes = operator::wishes(plan.seed, true, plan.calm_at);
        if random.chance(700) {
            for index in 1..plan.wishes.len() {
                let (before, _) = plan.wishes[index - 1];
                plan.wishes[index].0 = before + random.skewed(20_000, 300_000);
            }
        }
    }
}

/// Again and again a member is heard of less and less, dies, and returns when the safe point has
/// risen.
fn returns(plan: &Plan, profile: RunProfile, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(150_000, 600_000);
    while at + 200_000 < plan.calm_at {
        let machine = random.below(members);
        let long = random.skewed(50_000, 600_000);
        match random.chance(500) {
            true => faults.push((at, Fault::Isolate(machine, long))),
            false => {
                for other in (0..members).filter(|other| *other != machine) {
                    for kind in [Kind::Offers, Kind::Promotions, Kind::Overlays] {
                        faults.push((at, Fault::Mute(machine, other, kind, long)));
                    }
                }
            }
        }
        let down = random.between(250_000, 1_200_000);
        let crash_at = at + random.skewed(5_000, 200_000);
        if random.chance(800) {
            faults.push((crash_at, Fault::Crash(machine, down)));
        }
        for _ in 0..3 {
            let collect_at = at + random.between(0, 1_500_000);
            faults.push((collect_at.min(plan.calm_at), Fault::Collect));
        }
        for _ in 0..random.below(3) {
            let then = at + random.between(0, 800_000);
            faults.push((then.min(plan.calm_at), any(profile, members, random)));
        }
        at += random.between(300_000, 1_300_000);
    }
    faults
}

/// The safe point rises all the time. A member holds operations of which the head does not hear for
/// a while; in some runs members die and are filled.
fn safe_points(plan: &mut Plan, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    plan.work_max = *random.pick(&[200_000, 400_000, 800_000]);
    plan.work_rest = *random.pick(&[100, 20_000, 100_000]);
    let has_deaths = random.chance(600);
    let pace = random.between(10_000, 60_000);
    let mut faults = Vec::new();
    for at in (100_000..plan.calm_at).step_by(usize::try_from(pace).unwrap_or(usize::MAX)) {
        faults.push((at, Fault::Collect));
    }
    let mut at = random.between(100_000, 300_000);
    while at < plan.calm_at {
        let machine = random.below(members);
        let long = random.between(50_000, 400_000);
        for other in (0..members).filter(|other| *other != machine) {
            let muted: &[Kind] = match random.chance(500) {
                true => &[Kind::Offers, Kind::Promotions],
                false => &[Kind::Promotions],
            };
            for kind in muted {
                faults.push((at, Fault::Mute(machine, other, *kind, long)));
            }
        }
        if has_deaths && random.chance(400) {
            let down = random.between(50_000, 700_000);
            let dies = match random.chance(600) {
                true => random.below(members),
                false => machine,
            };
            let then = at + random.skewed(0, 200_000);
            faults.push((then.min(plan.calm_at), Fault::Crash(dies, down)));
        }
        at += random.between(50_000, 500_000);
    }
    faults
}

/// Again and again a disk is copied, work goes on, and all go down: one with its copy is the first
/// that is back. Some copies pass for the disk.
fn copies(plan: &Plan, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(150_000, 500_000);
    while at < plan.calm_at {
        let machine = random.below(members);
        faults.push((at, Fault::Copy(machine)));
        let back_at = at + random.between(40_000, 500_000);
        if plan.calm_at < back_at {
            break;
        }
        let down = random.between(1_000, 20_000);
        faults.push((
            back_at,
            match random.chance(500) {
                true => Fault::PutBack(machine, down),
                false => Fault::PutTwinBack(machine, down),
            },
        ));
        if random.chance(700) {
            faults.push((back_at, Fault::CrashAll(random.between(50_000, 900_000))));
        }
        at = back_at + random.between(300_000, 1_500_000);
    }
    faults
}

/// Faults of the profile, one soon after the other.
fn shower(plan: &Plan, profile: RunProfile, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(150_000, 400_000);
    let pace = random.between(30_000, 300_000);
    while at < plan.calm_at {
        let fault = any(profile, members, random);
        if let (RunProfile::Clocks, Fault::Crash(machine, _)) = (profile, fault) {
            let by = *random.pick(&[-5_000, -300, -100, 200]);
            faults.push((at + random.between(0, 5_000), Fault::Jump(machine, by)));
        }
        faults.push((at, fault));
        at += random.skewed(5_000, 2 * pace);
    }
    faults
}

fn any(profile: RunProfile, members: usize, random: &mut Random) -> Fault {
    let (one, other) = random.two_below(members);
    let short = random.skewed(20_000, 300_000);
    let long = random.between(300_000, 1_200_000);
    let kind = *random.pick(&Kind::ALL);
    let down = match profile {
        RunProfile::Fills | RunProfile::Returns => long,
        _ => short,
    };
    match random.below(12) {
        0..3 => Fault::Crash(one, down),
        3 => Fault::Promote(one),
        4 => Fault::Back(one),
        5 => Fault::Demote(one),
        6..9 => Fault::Mute(one, other, kind, short),
        9 => Fault::Cut(one, other, short),
        10 => match profile {
            RunProfile::Names | RunProfile::Returns => Fault::Collect,
            RunProfile::Quorums => Fault::Deafen(one, long),
            RunProfile::Fills => Fault::Spoil(one),
            _ => Fault::Pause(one, short),
        },
        _ => match profile {
            RunProfile::Names => Fault::Collect,
            RunProfile::Quorums => Fault::Orphan(one, short),
            RunProfile::Clocks => Fault::Crash(one, short),
            _ => Fault::Isolate(one, short),
        },
    }
}
