//! Costs of the contract of clouds: in a bucket in virtual time, in a folder in real time.

mod bucket;
mod folder;

use anyhow::Result;

use crate::Options;
use crate::machine::Machine;
use crate::report::Report;

pub(crate) fn run(options: &Options) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let mut findings = bucket::measure(options)?;
    let measured = folder::measure(options, scratch.path())?;
    findings.extend(measured.findings);
    let report = Report {
        benchmark: "cloud",
        machine,
        sides: measured.sides,
        findings,
        notes: measured.notes,
    };
    report.finish(options.json.as_deref(), options.quick)
}
