//! Jobs in words and tables.

use anyhow::Result;
use fader_cloud::{PriceBook, RequestKind, Usage};
use fader_mapreduce::{Definition, Forecast, State, Status, Success};

use crate::failure;
use crate::output::{self, visible};

/// A state in a word.
pub(super) fn state(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Publishing => "publishing",
        State::Cancelled => "cancelled",
        State::Failed => "failed",
    }
}

/// Tasks that are done.
pub(super) fn done(status: &Status) -> u64 {
    status
        .phases
        .iter()
        .map(|phase| u64::from(phase.done))
        .sum()
}

/// A job in a line.
pub(super) fn line(status: &Status) -> String {
    let phase = |phase: &fader_mapreduce::PhaseStatus| {
        let tasks = phase
            .tasks
            .map_or("?".to_owned(), |tasks| tasks.to_string());
        let running = match phase.running {
            0 => String::new(),
            running => format!(" (+{running})"),
        };
        format!("{} {}/{tasks}{running}", phase.phase, phase.done)
    };
    let phases: Vec<String> = status.phases.iter().map(phase).collect();
    phases.join(", ")
}

/// A job in a table.
pub(super) fn status(status: &Status) -> String {
    let register = &status.register;
    let word = match &status.success {
        Some(_) => "complete",
        None => state(register.state),
    };
    let program = &register.definition.program;
    let mut text = format!("job {}: {}, {word}\n", register.job, visible(&program.name));
    if !register.reason.is_empty() {
        text.push_str(&format!("{}\n", visible(&register.reason)));
    }
    let head = [
        "phase",
        "tasks",
        "done",
        "running",
        "failed",
        "lost",
        "backups",
        "median",
        "longest",
        "MB/s a task",
    ];
    let mut table = output::table(head);
    for phase in &status.phases {
        let ms = |ms: Option<u64>| ms.map_or(String::new(), seconds);
        table.add_row([
            phase.phase.to_owned(),
            phase
                .tasks
                .map_or("?".to_owned(), |tasks| tasks.to_string()),
            phase.done.to_string(),
            phase.running.to_string(),
            phase.failed.to_string(),
            phase.lost.to_string(),
            phase.backups.to_string(),
            ms(phase.ms.map(|ms| ms.0)),
            ms(phase.ms.map(|ms| ms.1)),
            phase.bytes_per_s.map_or(String::new(), |bytes| {
                format!("{:.1}", bytes as f64 / 1_000_000.0)
            }),
        ]);
    }
    text.push_str(&format!("{}\n", table.trim_fmt()));
    for phase in status.phases.iter().filter(|it| !it.stragglers.is_empty()) {
        text.push_str(&format!(
            "slow, with a backup: {}\n",
            phase.stragglers.join(", ")
        ));
    }
    text
}

/// The requests of a complete job, with their price by the built-in book.
pub(super) fn cost(success: &Success) -> Result<String> {
    Ok(cost_by(success, &book(BOOK)?))
}

fn cost_by(success: &Success, book: &PriceBook) -> String {
    let requests = success
        .requests
        .iter()
        .map(|(name, number)| (name.as_str(), *number));
    let count: u64 = success.requests.values().sum();
    format!(
        "{count} requests until its end: {}\n",
        dollars(requests, book)
    )
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// What a complete job came to, in a line.
pub(super) fn summary(success: &Success) -> String {
    let bytes: u64 = success.files.iter().map(|file| file.bytes).sum();
    let counter = |name: &str| success.counters.get(name).copied().unwrap_or_default();
    format!(
        "{} records of {} objects became {} records: {} bytes in {} parts",
        counter("map input records"),
        counter("input objects"),
        counter("reduce output records"),
        bytes,
        success.files.len()
    )
}

/// The book by which a run says its price.
const BOOK: &str = "aws-2026";

/// The requests of this process, with their price.
pub(super) fn requests(usage: &Usage) -> String {
    let price = match PriceBook::built_in(BOOK) {
        Some(book) => format!(": ${:.6} by {BOOK}", book.cost(usage).pico as f64 / 1e12),
        None => String::new(),
    };
    format!("{} requests of this process{price}", usage.requests())
}

/// A price book by its name.
pub(super) fn book(name: &str) -> Result<PriceBook> {
    match PriceBook::built_in(name) {
        Some(book) => Ok(book),
        None => {
            let known: Vec<_> = PriceBook::names().collect();
            failure::invalid(format_args!(
                "price book {name:?}: choose one of {}",
                known.join(", ")
            ))
        }
    }
}

/// The price of requests by kind, in dollars.
fn dollars<'a>(requests: impl Iterator<Item = (&'a str, u64)>, book: &PriceBook) -> String {
    let price = |name: &str| {
        let kind = RequestKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name);
        kind.map_or(0, |kind| book.request(kind).pico)
    };
    let pico: u128 = requests
        .map(|(name, number)| price(name) * u128::from(number))
        .sum();
    format!(
        "${:.6}, by prices of {}, {}",
        pico as f64 / 1e12,
        book.name,
        book.date
    )
}

/// A job after its end, or while it runs.
pub(super) fn after(found: &Status, partitions: Option<&[u64]>, book: &PriceBook) -> String {
    let mut text = status(found);
    if let Some(partitions) = partitions {
        let largest = partitions.iter().max().copied().unwrap_or_default();
        let all: u64 = partitions.iter().sum();
        let even = all / partitions.len().max(1) as u64;
        text.push_str(&format!(
            "largest partition {largest} bytes, even share {even}\n"
        ));
    }
    let Some(success) = &found.success else {
        return text;
    };
    text.push_str(&format!("{}\n", summary(success)));
    let mut table = output::table(["counter", ""]);
    for (name, number) in &success.counters {
        table.add_row([visible(name), number.to_string()]);
    }
    text.push_str(&format!("{}\n", table.trim_fmt()));
    let mut table = output::table(["task", "attempt", "time"]);
    for lap in &success.timeline {
        table.add_row([visible(&lap.task), visible(&lap.attempt), seconds(lap.ms)]);
    }
    text.push_str(&format!("{}\n", table.trim_fmt()));
    let bytes: Vec<u64> = success.files.iter().map(|file| file.bytes).collect();
    let (largest, all) = (
        bytes.iter().max().copied().unwrap_or(0),
        bytes.iter().sum::<u64>(),
    );
    let even = all / bytes.len().max(1) as u64;
    text.push_str(&format!(
        "largest part {largest} bytes, even share {even}\n"
    ));
    text.push_str(&cost_by(success, book));
    text
}

/// A job before it begins.
pub(super) fn before(definition: &Definition, forecast: &Forecast, book: &PriceBook) -> String {
    let Forecast {
        objects,
        bytes,
        maps,
        ..
    } = forecast;
    let mut text = format!(
        "{objects} objects, {bytes} bytes: {maps} map tasks, {} reduce tasks\n",
        definition.reduces
    );
    let mut table = output::table(["request", "about"]);
    for (kind, number) in &forecast.requests {
        table.add_row([kind.name().to_owned(), number.to_string()]);
    }
    text.push_str(&format!("{}\n", table.trim_fmt()));
    let requests = forecast
        .requests
        .iter()
        .map(|(kind, number)| (kind.name(), *number));
    text.push_str(&format!("{}\n", dollars(requests, book)));
    text
}
