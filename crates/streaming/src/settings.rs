//! What Hadoop's configuration says of a program.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::keys::{Keys, Partitioner, fields};

/// Old names of settings, and today's.
const RENAMED: [(&str, &str); 12] = [
    ("map.output.key.field.separator", KEY_SEPARATOR),
    ("mapred.job.name", "mapreduce.job.name"),
    ("mapred.map.max.attempts", "mapreduce.map.maxattempts"),
    ("mapred.map.tasks.speculative.execution", SPECULATIVE),
    ("mapred.max.split.size", SPLIT),
    ("mapred.output.key.comparator.class", COMPARATOR),
    ("mapred.partitioner.class", PARTITIONER),
    ("mapred.reduce.tasks", REDUCES),
    ("mapred.task.timeout", TIMEOUT),
    ("mapred.text.key.comparator.options", COMPARATOR_OPTIONS),
    ("mapred.text.key.partitioner.options", PARTITIONER_OPTIONS),
    ("mapred.textoutputformat.separator", OUTPUT_SEPARATOR),
];

pub(crate) const REDUCES: &str = "mapreduce.job.reduces";
pub(crate) const SPLIT: &str = "mapreduce.input.fileinputformat.split.maxsize";
pub(crate) const SPECULATIVE: &str = "mapreduce.map.speculative";
pub(crate) const ATTEMPTS: &str = "mapreduce.map.maxattempts";
pub(crate) const PARTITIONER: &str = "mapreduce.job.partitioner.class";
const COMPARATOR: &str = "mapreduce.job.output.key.comparator.class";
const COMPARATOR_OPTIONS: &str = "mapreduce.partition.keycomparator.options";
const PARTITIONER_OPTIONS: &str = "mapreduce.partition.keypartitioner.options";
const PARTITIONER_FIELDS: &str = "num.key.fields.for.partition";
const KEY_SEPARATOR: &str = "mapreduce.map.output.key.field.separator";
const OUTPUT_SEPARATOR: &str = "mapreduce.output.textoutputformat.separator";
const TIMEOUT: &str = "mapreduce.task.timeout";
const EXIT: &str = "stream.non.zero.exit.is.failure";

/// The default of `mapreduce.task.timeout`.
const TIMEOUT_MS: u64 = 600_000;

/// How the lines of a program become pairs, and pairs lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Between key and value in a mapper's lines, and after how many fields.
    pub(crate) map_output: (Vec<u8>, usize),
    /// Between key and value in a reducer's input.
    pub(crate) reduce_input: Vec<u8>,
    /// Between key and value in a reducer's lines, and after how many fields.
    pub(crate) reduce_output: (Vec<u8>, usize),
    /// Between key and value in a part.
    pub(crate) part: Vec<u8>,
    /// Order and partitions of keys.
    pub(crate) keys: Keys,
    /// A process that neither reads nor writes for so long is ended; `None`: it may.
    pub(crate) timeout: Option<Duration>,
    /// Whether another exit code than 0 fails the attempt.
    pub(crate) is_exit_judged: bool,
}

/// The name of a setting as it is today.
pub(crate) fn todays(name: &str) -> &str {
    let renamed = RENAMED.iter().find(|(old, _)| *old == name);
    renamed.map_or(name, |(_, new)| new)
}

/// Whether a class is Hadoop's of this name, in either of its packages.
pub(crate) fn is_class(class: &str, name: &str) -> bool {
    class == name || class.ends_with(&format!(".{name}"))
}

impl Settings {
    /// Reads a configuration with today's names.
    ///
    /// # Errors
    /// The setting that is wrong, in words.
    pub(crate) fn of(configuration: &BTreeMap<String, String>) -> Result<Settings, String> {
        let of = |name: &str| configuration.get(name).map(String::as_str);
        let separator = |name: &str| match of(name).unwrap_or("\t") {
            "" => Err(format!("{name} is empty")),
            text => Ok(text.as_bytes().to_vec()),
        };
        let count = |name: &str| match of(name) {
            None => Ok(1),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{name}={text}: no number")),
        };
        let timeout: u64 = match of(TIMEOUT) {
            None => TIMEOUT_MS,
            Some(text) => text
                .parse()
                .map_err(|_| format!("{TIMEOUT}={text}: no number of milliseconds"))?,
        };
        Ok(Settings {
            map_output: (
                separator("stream.map.output.field.separator")?,
                count("stream.num.map.output.key.fields")?,
            ),
            reduce_input: separator("stream.reduce.input.field.separator")?,
            reduce_output: (
                separator("stream.reduce.output.field.separator")?,
                count("stream.num.reduce.output.key.fields")?,
            ),
            part: separator(OUTPUT_SEPARATOR)?,
            keys: Keys {
                separator: separator(KEY_SEPARATOR)?,
                order: order(&of)?,
                partitioner: partitioner(&of)?,
            },
            timeout: Some(Duration::from_millis(timeout)).filter(|time| !time.is_zero()),
            is_exit_judged: of(EXIT) != Some("false"),
        })
    }
}

fn order<'a>(
    of: &impl Fn(&str) -> Option<&'a str>,
) -> Result<Option<Vec<crate::keys::Field>>, String> {
    match of(COMPARATOR) {
        None => Ok(None),
        Some(class) if is_class(class, "KeyFieldBasedComparator") => {
            let options = of(COMPARATOR_OPTIONS).unwrap_or_default();
            let fields = fields(options).map_err(|part| wrong(COMPARATOR_OPTIONS, &part))?;
            Ok(Some(fields).filter(|fields| !fields.is_empty()))
        }
        Some(class) => Err(format!(
            "{COMPARATOR}={class}: KeyFieldBasedComparator is the only comparator here"
        )),
    }
}

fn partitioner<'a>(of: &impl Fn(&str) -> Option<&'a str>) -> Result<Partitioner, String> {
    match of(PARTITIONER) {
        None => Ok(Partitioner::Text),
        Some(class) if is_class(class, "HashPartitioner") => Ok(Partitioner::Text),
        Some(class) if is_class(class, "KeyFieldBasedPartitioner") => {
            let counted = of(PARTITIONER_FIELDS).map(|count| format!("-k1,{count}"));
            let options = of(PARTITIONER_OPTIONS).map(ToOwned::to_owned).or(counted);
            let fields = fields(&options.unwrap_or_default());
            let fields = fields.map_err(|part| wrong(PARTITIONER_OPTIONS, &part))?;
            Ok(Partitioner::Fields(fields))
        }
        Some(class) => Err(format!(
            "partitioner {class}: there are HashPartitioner and KeyFieldBasedPartitioner here"
        )),
    }
}

fn wrong(name: &str, part: &str) -> String {
    format!("{name}: {part:?} is no field: write -k2,2nr")
}
