//! A MapReduce job in Rust that is its own worker: words that are made of the same letters.
//!
//! ```sh
//! cargo run --release --example anagrams -- file:///tmp/anagrams 'file:///usr/share/doc/**'
//! anagrams s3://bucket/out 's3://bucket/books/**'      # begins the job, and works for it
//! anagrams s3://bucket/out                             # on other machines: works for it, too
//! ```
//!
//! Any of these processes may be killed at any moment. The first command resumes the job.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use fader_client::{Access, Options};
use fader_mapreduce::{
    Batch, Code, Combining, Compute, Context, Definition, Emit, Failure, Guards, Inputs, Library,
    Map, Outcome, Output, Part, Program, Reduce, Settings, State, Tools, Worker,
};
use object_store::ObjectStore;

/// The program's name in the job's definition.
const NAME: &str = "anagrams";

/// The one program of this library.
#[derive(Clone, Copy, Debug)]
struct Anagrams;

impl Library for Anagrams {
    fn open(&self, program: &Program) -> Outcome<Arc<dyn Code>> {
        match program.name == NAME {
            true => Ok(Arc::new(Anagrams)),
            false => Err(Failure::Job(format!(
                "the job is of {}, which is no program of this worker",
                program.name
            ))),
        }
    }
}

impl Code for Anagrams {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(Anagrams))
    }

    /// A word is sent once from each map task.
    fn combining(&self) -> Combining {
        Combining::Unique
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(Words::default()))
    }
}

impl Map for Anagrams {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        let is_letter = |byte: &u8| byte.is_ascii_alphabetic();
        for word in batch.bytes.split(|byte| !is_letter(byte)) {
            if 4 <= word.len() && word.len() <= 64 {
                let word = word.to_ascii_lowercase();
                let mut letters = word.clone();
                letters.sort_unstable();
                out.emit(&letters, &word);
            }
        }
        Ok(())
    }
}

/// The words with the same letters.
#[derive(Debug, Default)]
struct Words(BTreeSet<Vec<u8>>);

impl Reduce for Words {
    fn begin(&mut self, _: &[u8], _: &mut Part) -> Outcome<()> {
        self.0.clear();
        Ok(())
    }

    fn value(&mut self, _: &[u8], word: &[u8], _: &mut Part) -> Outcome<()> {
        self.0.insert(word.to_vec());
        Ok(())
    }

    fn end(&mut self, _: &[u8], out: &mut Part) -> Outcome<()> {
        if self.0.len() < 2 {
            return Ok(());
        }
        let words: Vec<&[u8]> = self.0.iter().map(Vec::as_slice).collect();
        out.bytes.extend_from_slice(&words.join(&b' '));
        out.end_line();
        out.count("groups", 1);
        Ok(())
    }
}

/// Opens input for reading.
#[derive(Debug)]
struct Folders;

#[async_trait]
impl Inputs for Folders {
    async fn open(&self, base: &str) -> fader_cloud::Result<Arc<dyn ObjectStore>> {
        let options = Options {
            access: Access::Read,
            ..Options::default()
        };
        Ok(fader_client::open(base, &options).await?.objects)
    }
}

/// Computes on tokio's threads for work that blocks.
#[derive(Debug)]
struct Threads;

impl Compute for Threads {
    fn start(&self, work: Box<dyn FnOnce() + Send>) {
        drop(tokio::task::spawn_blocking(work));
    }
}

/// Works for the job of an output; begins it where there is input.
async fn work(output: &str, inputs: Vec<String>) -> Result<()> {
    let options = Options {
        access: Access::Write,
        ..Options::default()
    };
    let cloud = fader_client::open(output, &options).await?;
    let place = Output::new(cloud, Guards::default());
    let begins = !inputs.is_empty();
    let register = match begins {
        true => {
            place
                .begin(&Definition::new(Program::new(NAME), inputs))
                .await?
        }
        false => place.register().await?.context("no job was begun there")?,
    };
    let tools = Tools {
        inputs: Arc::new(Folders),
        library: Arc::new(Anagrams),
        compute: Arc::new(Threads),
    };
    let worker = Worker::new(place.clone(), register, tools, Settings::default())?;
    if begins {
        worker.submit().await?;
    }
    let ended = worker.run().await?;
    if ended.state != State::Publishing {
        bail!("the job ended without output: {}", ended.reason);
    }
    let success = place.success().await?.context("the output is gone")?;
    eprintln!("{} parts", success.files.len());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let Some(output) = words.next() else {
        eprintln!("usage: anagrams OUTPUT [INPUT...]");
        return Ok(ExitCode::from(2));
    };
    work(&output, words.collect()).await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn words_with_the_same_letters_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        std::fs::create_dir(&input).unwrap();
        std::fs::create_dir(&output).unwrap();
        std::fs::write(
            input.join("a.txt"),
            "The stone fell; notes and tones. Stone!",
        )
        .unwrap();
        std::fs::write(input.join("b.txt"), "listen: silent night, thing").unwrap();
        let url = |path: &std::path::Path| format!("file://{}", path.display());
        let inputs = vec![format!("{}/**", url(&input))];
        work(&url(&output), inputs).await.unwrap();
        let mut lines: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(&output).unwrap() {
            let path = entry.unwrap().path();
            if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("part-")
            {
                let text = std::fs::read_to_string(path).unwrap();
                lines.extend(text.lines().map(str::to_owned));
            }
        }
        lines.sort();
        assert_eq!(lines, ["listen silent", "night thing", "notes stone tones"]);
    }
}
