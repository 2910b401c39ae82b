//! What the contract of clouds costs: here on a folder, in real time.

mod folder;

use anyhow::Result;

use crate::Options;
use crate::machine::Machine;
use crate::report::Report;

pub(crate) fn run(options: &Options) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let measured = folder::measure(options, scratch.path())?;
    let report = Report {
        benchmark: "cloud",
        machine,
        sides: measured.sides,
        findings: measured.findings,
        notes: measured.notes,
    };
    report.finish(options.json.as_deref(), options.quick)
}
