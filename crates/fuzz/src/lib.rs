//! Runs a target on mutations of a corpus, on stable Rust: for all that a stranger sends, nothing
//! panics, and memory stays bounded.
//!
//! ```text
//! corpus ──▶ mutate(seed, number) ──▶ target ──▶ returned: good; panicked: told, with its number
//! ```
//!
//! A test calls [`run`]. As part of all tests it tries a sample; `cargo xtask fuzz` tries a
//! million inputs. An input follows from the seed and its number alone, so that one that fails can
//! be run again by itself.
//!
//! Deliberately absent: coverage. The corpus has a member for each kind of input instead.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How many inputs a test tries unless [`INPUTS`] says so.
const SAMPLE: u64 = 2_000;
/// The environment's variable with the number of inputs.
pub const INPUTS: &str = "FADER_FUZZ_INPUTS";
/// The environment's variable with the seed.
pub const SEED: &str = "FADER_FUZZ_SEED";
/// The environment's variable with the number of the only input to run.
pub const ONLY: &str = "FADER_FUZZ_ONLY";
/// Bytes by which the memory of the process may grow in a run, other tests' included.
const GROWTH_MAX: u64 = 256 << 20;
/// The longest input.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// The most mutations of one input.
const MUTATIONS_MAX: u32 = 8;
/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(2);

/// Where inputs come from.
pub struct Corpus<'a> {
    /// Good inputs, at least one.
    pub seeds: &'a [&'a [u8]],
    /// Parts that mean something to the target.
    pub words: &'a [&'a [u8]],
}

/// Runs `target` on mutations of a corpus.
///
/// # Panics
/// As the target does, after the input was told; and when memory grew too much.
pub fn run(name: &str, corpus: &Corpus<'_>, mut target: impl FnMut(&[u8])) {
    let seed = number_of(SEED).unwrap_or(1);
    let count = number_of(INPUTS);
    let numbers = match number_of(ONLY) {
        Some(only) => only..only + 1,
        None => 0..count.unwrap_or(SAMPLE),
    };
    corpus.seeds.iter().for_each(|input| target(input));
    let before = most_memory();
    let end = numbers.end;
    let mut told = Instant::now();
    for number in numbers {
        let input = mutated(corpus, seed, number);
        let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
        if let Err(panic) = outcome {
            eprintln!(
                "{name}: input {number} of seed {seed} panicked; again: {SEED}={seed} \
                 {ONLY}={number}\n{:?}",
                String::from_utf8_lossy(&input)
            );
            resume_unwind(panic);
        }
        if count.is_some() && PROGRESS <= told.elapsed() {
            told = Instant::now();
            eprintln!("{name}: {number} of {end} inputs");
        }
    }
    let growth = most_memory().saturating_sub(before);
    assert!(
        growth <= GROWTH_MAX,
        "{name}: memory grew by {growth} bytes"
    );
    if count.is_some() {
        eprintln!(
            "{name}: {end} inputs, no panic, memory grew by {} KiB",
            growth >> 10
        );
    }
}

/// The input with that number: some member of the corpus, changed at some places.
pub fn mutated(corpus: &Corpus<'_>, seed: u64, number: u64) -> Vec<u8> {
    // Each number has a stream of its own.
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    let mut input = pick(corpus.seeds, &mut random).to_vec();
    for _ in 0..random.random_range(1..=MUTATIONS_MAX) {
        mutate(&mut input, corpus, &mut random);
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

fn pick<'a>(of: &[&'a [u8]], random: &mut ChaCha8Rng) -> &'a [u8] {
    match of.len() {
        0 => &[],
        len => of[random.random_range(0..len)],
    }
}

/// A part of `len` bytes at most, somewhere in `size` bytes.
fn part(size: usize, len: usize, random: &mut ChaCha8Rng) -> std::ops::Range<usize> {
    let start = random.random_range(0..=size);
    start..size.min(start + random.random_range(0..=len))
}

fn mutate(input: &mut Vec<u8>, corpus: &Corpus<'_>, random: &mut ChaCha8Rng) {
    let size = input.len();
    let at = random.random_range(0..=size);
    match random.random_range(0..10_u8) {
        0 if 0 < size => input[at.min(size - 1)] ^= 1 << random.random_range(0..8_u8),
        1 if 0 < size => input[at.min(size - 1)] = random.random(),
        2 => {
            const EDGES: [u8; 6] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF];
            let edge = EDGES[random.random_range(0..EDGES.len())];
            let count = random.random_range(1..=8);
            input.splice(at..at, std::iter::repeat_n(edge, count));
        }
        3 => drop(input.drain(part(size, 64, random))),
        4 => input.truncate(at),
        5 => {
            let repeated = input[part(size, 64, random)].repeat(random.random_range(1..=64));
            input.splice(at..at, repeated);
        }
        6 => {
            let other = pick(corpus.seeds, random);
            let taken = &other[part(other.len(), other.len(), random)];
            input.splice(at..at, taken.iter().copied());
        }
        7 => {
            let digits = random.random::<u64>() >> random.random_range(0..64_u8);
            input.splice(at..at, digits.to_string().into_bytes());
        }
        _ => {
            let word = pick(corpus.words, random);
            let over = part(size, word.len(), random);
            input.splice(over, word.iter().copied());
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The most memory that this process ever had at once, in bytes; 0 where it is unknown.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORPUS: Corpus<'_> = Corpus {
        seeds: &[b"select * from cats", b""],
        words: &[b"where", b"'"],
    };

    #[test]
    fn an_input_follows_from_its_number() {
        for number in 0..1000 {
            let input = mutated(&CORPUS, 7, number);
            assert_eq!(input, mutated(&CORPUS, 7, number));
            assert!(input.len() <= INPUT_BYTES_MAX);
        }
        assert_ne!(mutated(&CORPUS, 7, 1), mutated(&CORPUS, 8, 1));
    }

    #[test]
    fn inputs_differ() {
        let inputs: std::collections::BTreeSet<_> = (0..1000)
            .map(|number| mutated(&CORPUS, 1, number))
            .collect();
        assert!(500 < inputs.len(), "{}", inputs.len());
    }

    #[test]
    #[should_panic(expected = "a quote")]
    fn a_panic_is_passed_on() {
        run("quotes", &CORPUS, |input| {
            assert!(!input.contains(&b'\''), "a quote");
        });
    }

    #[test]
    fn memory_is_seen_to_grow() {
        let before = most_memory();
        let kept = vec![1_u8; 64 << 20];
        assert!(32 << 20 <= most_memory() - before, "{}", kept.len());
    }
}
