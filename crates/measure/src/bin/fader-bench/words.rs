//! The word count of some files by a program of two threads: the floor of `bench mapreduce`.
//!
//! Each thread counts the words of every second file in a hash table. Both are then written, word
//! by word in order, to one file. Nothing survives a crash, and all words must fit into memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

const THREADS: usize = 2;

#[derive(Args)]
pub(crate) struct Options {
    /// The folder of the files.
    #[arg(long)]
    input: PathBuf,
    /// The file of lines `word TAB count`.
    #[arg(long)]
    output: PathBuf,
}

/// Fowler, Noll and Vo's hash, eight bytes at a time: words are no attack here.
#[derive(Default)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = mixed ^ (mixed >> 32);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Counts = HashMap<Box<[u8]>, u64, BuildHasherDefault<Fnv>>;

/// The bytes that part words, as those of `fader mapreduce run word-count`.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

fn count(files: &[PathBuf], first: usize) -> Result<Counts> {
    let mut counts = Counts::default();
    for file in files.iter().skip(first).step_by(THREADS) {
        let text = fs::read(file).with_context(|| file.display().to_string())?;
        for word in text.split(is_space).filter(|word| !word.is_empty()) {
            match counts.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(counts.insert(word.into(), 1)),
            }
        }
    }
    Ok(counts)
}

/// Counts and writes.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(&options.input)? {
        files.push(entry?.path());
    }
    files.sort();
    let counted: Result<Vec<Counts>> = std::thread::scope(|scope| {
        let files = &files;
        let threads: Vec<_> = (0..THREADS)
            .map(|first| scope.spawn(move || count(files, first)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|done| done.map_err(|_| anyhow::anyhow!("a thread panicked"))?)
            .collect()
    });
    let mut all = Counts::default();
    for counts in counted? {
        for (word, count) in counts {
            match all.entry(word) {
                Entry::Occupied(mut known) => *known.get_mut() += count,
                Entry::Vacant(new) => drop(new.insert(count)),
            }
        }
    }
    write(&options.output, all)
}

fn write(path: &Path, counts: Counts) -> Result<()> {
    let mut lines: Vec<(Box<[u8]>, u64)> = counts.into_iter().collect();
    lines.sort_unstable();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for (word, count) in lines {
        file.write_all(&word)?;
        writeln!(file, "\t{count}")?;
    }
    Ok(file.flush()?)
}
