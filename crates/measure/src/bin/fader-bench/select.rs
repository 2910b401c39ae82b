//! An equality Select that returns ten items: out of a million, against out of ten thousand.

use std::sync::Arc;

use anyhow::Result;
use fader_measure::{DIGITS, Items, Select, ratio_of_medians, rounds};
use tokio::runtime::Runtime;

use crate::Options;
use crate::load::{Runs, fill, measure};
use crate::machine::Machine;
use crate::report::{Finding, Report, Target};
use crate::server::Server;

/// Items that each Select returns.
const GROUP_ITEMS: u64 = 10;
const SMALL: u64 = 10_000;
const LARGE: u64 = 1_000_000;

pub(crate) fn run(options: &Options) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let server = Server::fader(&options.fader, &scratch.path().join("data"))?;
    let part = if options.quick { 50 } else { 1 };
    let sides = [("bench-small", SMALL / part), ("bench-large", LARGE / part)];
    let sides = sides.map(|(domain, count)| {
        let groups = count / GROUP_ITEMS;
        Arc::new(Items {
            domain: domain.to_owned(),
            count,
            attributes: 2,
            value_bytes: DIGITS,
            groups,
        })
    });
    for items in &sides {
        Runtime::new()?.block_on(server.client()?.create_domain(&items.domain))?;
        fill(options, &server, items)?;
    }
    let mut runs = sides
        .each_ref()
        .map(|items| Runs::new(&format!("Select {GROUP_ITEMS} of {}", items.count), 1));
    let rounds = rounds(sides.len(), options.runs(), options.seed);
    for (round, order) in rounds.iter().enumerate() {
        eprintln!("round {} of {}", round + 1, rounds.len());
        for &side in order {
            let select = Arc::new(Select {
                items: Arc::clone(&sides[side]),
            });
            let elapsed = options.seconds();
            measure(options, &server, &mut runs[side], elapsed, |_| {
                select.clone()
            })?;
        }
    }
    let [small, large] = &runs;
    let finding = Finding {
        name: String::from("latency of the large / of the small domain"),
        interval: ratio_of_medians(&large.medians, &small.medians, options.seed),
        unit: " x",
        target: Target::AtMost(3.0),
    };
    let report = Report {
        benchmark: "select",
        machine,
        sides: runs.iter().map(Runs::side).collect(),
        findings: vec![finding],
        notes: vec![String::from(
            "Each Select asks for another group, at random; every item returned is checked.",
        )],
    };
    report.finish(options.json.as_deref(), options.quick)
}
