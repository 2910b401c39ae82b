//! What the rates come to, beside those of the peers.

use fader_measure::{Interval, median, ratio_of_medians};

use super::{PUT_OF_DISK, PUT_OF_MINIO, Subject, Work};
use crate::report::{Finding, Side, Target};

pub(super) fn sides(subject: &Subject) -> Vec<Side> {
    let done = Work::ALL
        .into_iter()
        .filter(|work| !subject.of(*work).is_empty());
    done.map(|work| Side {
        name: format!("{}: {}", subject.name, work.name()),
        rate: median(subject.of(work)),
        p50_ms: f64::NAN,
        p99_ms: f64::NAN,
        server_us: f64::NAN,
        rates: subject.of(work).to_vec(),
    })
    .collect()
}

/// A ratio of medians with its target.
pub(super) fn finding(name: String, interval: Interval, target: Target) -> Finding {
    Finding {
        name,
        interval,
        unit: "",
        target,
    }
}

/// The targets against a peer, and the same as synced.
fn against(name: &str, work: Work) -> Option<f64> {
    match (name, work) {
        ("MinIO", Work::PutSmall | Work::GetSmall) => Some(2.0),
        ("MinIO", Work::GetLarge) => Some(1.2),
        ("MinIO", Work::List) => Some(3.0),
        ("nginx", Work::GetSmall) => Some(0.5),
        ("nginx", Work::GetLarge) => Some(0.9),
        _ => None,
    }
}

pub(super) fn of_rates(subjects: &[Subject], synced: &[f64], seed: u64) -> Vec<Finding> {
    let (fader, peers) = subjects.split_first().expect("fader is the first");
    let mut findings = Vec::new();
    for peer in peers {
        for work in Work::ALL {
            if peer.of(work).is_empty() {
                continue;
            }
            let interval = ratio_of_medians(fader.of(work), peer.of(work), seed);
            // A side without a target is shown: it is at least nothing.
            let target = Target::AtLeast(against(peer.name, work).unwrap_or_default());
            let name = format!("fader / {}: {}", peer.name, work.name());
            findings.push(finding(name, interval, target));
        }
    }
    let puts = fader.of(Work::PutLarge);
    if puts.is_empty() {
        return findings;
    }
    let name = "8 MiB puts / writes with fdatasync".to_owned();
    let of_disk = ratio_of_medians(puts, synced, seed);
    findings.push(finding(name, of_disk, Target::AtLeast(0.0)));
    if let Some(minio) = peers.iter().find(|peer| peer.name == "MinIO") {
        findings.push(lower_goal(puts, minio.of(Work::PutLarge), synced, seed));
    }
    findings
}

/// 8 MiB puts are to be as fast as MinIO's times 1.2, or as 0.85 of the disk: the lower one.
fn lower_goal(puts: &[f64], minio: &[f64], synced: &[f64], seed: u64) -> Finding {
    let (of_minio, of_disk) = (PUT_OF_MINIO * median(minio), PUT_OF_DISK * median(synced));
    let (part, base, of) = match of_minio < of_disk {
        true => (
            PUT_OF_MINIO,
            minio,
            "MinIO, which is below 0.85 of the disk",
        ),
        false => (PUT_OF_DISK, synced, "the disk, which is below 1.2 x MinIO"),
    };
    let name = format!("8 MiB puts / {of}");
    finding(
        name,
        ratio_of_medians(puts, base, seed),
        Target::AtLeast(part),
    )
}
