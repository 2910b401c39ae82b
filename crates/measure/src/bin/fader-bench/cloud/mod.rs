//! What the contract of clouds costs: in a bucket in virtual time, and on a folder in real time.

mod bucket;
mod folder;

use anyhow::Result;

use crate::Options;
use crate::machine::Machine;
use crate::report::Report;

pub(crate) fn run(options: &Options) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let measured = folder::measure(options, scratch.path())?;
    let mut report = Report {
        benchmark: "cloud",
        machine,
        sides: measured.sides,
        findings: measured.findings,
        notes: measured.notes,
    };
    // The rest takes longer, and no machine's speed changes it.
    report.print(options.quick);
    report.findings.extend(bucket::measure(options)?);
    report.finish(options.json.as_deref(), options.quick)
}
