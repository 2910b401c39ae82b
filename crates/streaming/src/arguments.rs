//! Hadoop's arguments: `-files m.py -input … -output … -mapper m.py -reducer r.py -D …`.

use std::collections::BTreeMap;

use fader_mapreduce::{Definition, Format};

use crate::program::{FILES_BYTES_MAX, File, Io, Streaming};
use crate::settings::{
    ATTEMPTS, PARTITIONER, REDUCES, SPECULATIVE, SPLIT, Settings, is_class, todays,
};

/// A job as Hadoop's arguments say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What it computes; its inputs are as they were written.
    pub definition: Definition,
    /// Where its output goes, as it was written.
    pub output: String,
    /// What was said and does nothing here.
    pub ignored: Vec<String>,
}

/// Arguments that are no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(pub String);

fn wrong<T>(text: impl Into<String>) -> Result<T, ArgumentError> {
    Err(ArgumentError(text.into()))
}

/// What was said so far.
#[derive(Default)]
struct Said {
    inputs: Vec<String>,
    output: Option<String>,
    mapper: Option<String>,
    combiner: Option<String>,
    reducer: Option<String>,
    /// Paths, and the names that the files get.
    files: Vec<(String, String)>,
    program: Streaming,
    /// Whether a record is a whole object.
    is_whole: bool,
    ignored: Vec<String>,
}

/// Reads Hadoop's arguments; `read` gives the bytes of a file of this machine.
///
/// # Errors
/// An argument that is unknown or wrong, or missing; a file that cannot be read or is too large.
pub fn parse(
    arguments: &[String],
    read: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
) -> Result<Job, ArgumentError> {
    let mut said = Said::default();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(flag) = rest.next() {
        let flag = match flag.strip_prefix("--") {
            Some(name) => format!("-{name}"),
            None => flag.to_owned(),
        };
        if ["-verbose", "-background", "-lazyOutput"].contains(&flag.as_str()) {
            said.ignored.push(flag);
            continue;
        }
        // Hadoop takes `-Dname=value` too.
        let (flag, value) = match flag.strip_prefix("-D").filter(|rest| !rest.is_empty()) {
            Some(value) => ("-D".to_owned(), value.to_owned()),
            None => match rest.next() {
                Some(value) => (flag, value.to_owned()),
                None => return wrong(format!("{flag} lacks its value")),
            },
        };
        said.take(&flag, value)?;
    }
    said.job(read)
}

impl Said {
    fn take(&mut self, flag: &str, value: String) -> Result<(), ArgumentError> {
        match flag {
            "-input" => self.inputs.extend(value.split(',').map(ToOwned::to_owned)),
            "-output" => self.output = Some(value),
            "-mapper" => self.mapper = Some(value),
            "-reducer" => self.reducer = Some(value),
            "-file" | "-files" => {
                for one in value.split(',') {
                    let (path, name) = one.split_once('#').unwrap_or((one, ""));
                    let last = path.trim_end_matches('/').rsplit('/').next();
                    let name = if name.is_empty() {
                        last.unwrap_or(path)
                    } else {
                        name
                    };
                    self.files.push((path.to_owned(), name.to_owned()));
                }
            }
            "-D" | "-jobconf" => {
                let Some((name, value)) = value.split_once('=') else {
                    return wrong(format!("{flag} {value}: write NAME=VALUE"));
                };
                self.set(todays(name.trim()), value);
            }
            "-cmdenv" => {
                let Some((name, value)) = value.split_once('=') else {
                    return wrong(format!("-cmdenv {value}: write NAME=VALUE"));
                };
                let variables = &mut self.program.variables;
                variables.insert(name.to_owned(), value.to_owned());
            }
            "-numReduceTasks" => self.set(REDUCES, &value),
            "-partitioner" => self.set(PARTITIONER, &value),
            "-combiner" => self.combiner = Some(value),
            "-inputformat" => {
                let known = ["TextInputFormat", "KeyValueTextInputFormat", "whole"];
                if !known.iter().any(|name| is_class(&value, name)) {
                    return wrong(format!(
                        "-inputformat {value}: there is {}",
                        known.join(", ")
                    ));
                }
                self.is_whole = value == "whole";
            }
            "-outputformat" if is_class(&value, "TextOutputFormat") => {}
            "-outputformat" => {
                return wrong(format!("-outputformat {value}: there is TextOutputFormat"));
            }
            "-io" if value == "text" => {}
            "-io" if value == "frames" => self.program.io = Io::Frames,
            "-io" => return wrong(format!("-io {value}: there are text and frames")),
            _ => {
                return wrong(format!(
                    "{flag} is none of: -input, -output, -mapper, -reducer, -combiner, -files, \
                     -file, -numReduceTasks, -partitioner, -inputformat, -outputformat, -io, \
                     -cmdenv, -D"
                ));
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) {
        let configuration = &mut self.program.configuration;
        configuration.insert(name.to_owned(), value.to_owned());
    }

    /// What frames need, and what is said of lines alone.
    fn check_frames(&self) -> Result<(), ArgumentError> {
        if self.program.mapper.is_none() || self.program.reducer.is_none() {
            return wrong("-io frames needs -mapper and -reducer");
        }
        if self.program.combiner.is_some() {
            return wrong("-io frames takes no -combiner: the mapper combines its own pairs");
        }
        let of_lines = |name: &&String| {
            name.starts_with("stream.") && *name != "stream.non.zero.exit.is.failure"
                || name.contains("partition")
                || name.contains("comparator")
        };
        match self.program.configuration.keys().find(of_lines) {
            Some(name) => wrong(format!(
                "{name} is about lines: leave it out with -io frames"
            )),
            None => Ok(()),
        }
    }

    fn job(
        mut self,
        read: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
    ) -> Result<Job, ArgumentError> {
        if self.inputs.is_empty() {
            return wrong("where is the input? say -input URL");
        }
        let Some(output) = self.output.take() else {
            return wrong("where does the output go? say -output URL");
        };
        self.program.mapper = command("-mapper", self.mapper.take(), "IdentityMapper")?;
        self.program.combiner = command("-combiner", self.combiner.take(), "IdentityReducer")?;
        self.program.reducer = command("-reducer", self.reducer.take(), "IdentityReducer")?;
        self.program.files = files(&self.files, read)?;
        if let Err(text) = Settings::of(&self.program.configuration) {
            return wrong(text);
        }
        if self.program.io == Io::Frames {
            self.check_frames()?;
        } else if self.is_whole {
            return wrong("-inputformat whole needs -io frames: a line has no line feeds");
        }
        let number = |name: &str| match self.program.configuration.get(name) {
            None => Ok(None),
            Some(text) => match text.parse::<u64>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => wrong(format!("{name}={text}: no number")),
            },
        };
        // Hadoop's default.
        let reduces = number(REDUCES)?.unwrap_or(1);
        if reduces == 0 {
            return wrong(
                "a job without reduce tasks is not there: leave -reducer out, and its pairs are \
                 sorted and passed on",
            );
        }
        let (split, attempts) = (number(SPLIT)?, number(ATTEMPTS)?);
        let is_speculative = self.program.configuration.get(SPECULATIVE);
        let plain = Definition::new(self.program.program(), self.inputs);
        let definition = Definition {
            format: if self.is_whole {
                Format::Whole
            } else {
                Format::Lines
            },
            reduces: u32::try_from(reduces).unwrap_or(u32::MAX),
            split_bytes: split.unwrap_or(plain.split_bytes),
            failed_max: attempts.map_or(plain.failed_max, |it| it.clamp(1, 100) as u32),
            backups: is_speculative.is_none_or(|text| text != "false"),
            ..plain
        };
        Ok(Job {
            definition,
            output,
            ignored: self.ignored,
        })
    }
}

/// A command; `None` passes its input on.
fn command(
    flag: &str,
    command: Option<String>,
    identity: &str,
) -> Result<Option<String>, ArgumentError> {
    let Some(text) = command.filter(|text| !is_class(text.trim(), identity)) else {
        return Ok(None);
    };
    if text == "NONE" || text == "aggregate" {
        return wrong(format!("{flag} {text} is not there: name a command"));
    }
    match words(&text) {
        Ok(words) if words.is_empty() => wrong(format!("{flag} is empty")),
        Ok(words) if is_java(&words[0]) => {
            wrong(format!("{flag} {text}: classes of Java do not run here"))
        }
        Ok(_) => Ok(Some(text)),
        Err(()) => wrong(format!("{flag} {text}: a quote has no end")),
    }
}

/// Whether a command is the name of a class, as `org.apache.hadoop.mapred.lib.LongSumReducer`.
fn is_java(word: &str) -> bool {
    ["org.apache.", "com.", "java."]
        .iter()
        .any(|of| word.starts_with(of))
        && !word.contains('/')
}

fn files(
    files: &[(String, String)],
    read: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
) -> Result<BTreeMap<String, File>, ArgumentError> {
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    for (path, name) in files {
        if matches!(name.as_str(), "" | "." | "..") || name.contains(['/', '\0']) {
            return wrong(format!("{path}#{name}: {name:?} is no name for a file"));
        }
        let path = path.strip_prefix("file://").unwrap_or(path);
        let content = read(path).map_err(|error| ArgumentError(format!("{path}: {error}")))?;
        bytes += content.len();
        if FILES_BYTES_MAX < bytes {
            let max = FILES_BYTES_MAX >> 10;
            return wrong(format!(
                "the files have more than {max} KiB together: put {path} on the machines"
            ));
        }
        if found.insert(name.clone(), File::new(&content)).is_some() {
            return wrong(format!("two files have the name {name:?}"));
        }
    }
    Ok(found)
}

/// The words of a command: spaces part them, quotes of both kinds keep them together. No shell
/// reads it.
pub(crate) fn words(command: &str) -> Result<Vec<String>, ()> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(of), c) if of == c => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() { Err(()) } else { Ok(words) }
}

#[cfg(test)]
mod tests;
