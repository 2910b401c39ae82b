//! The file of an import, read on its own thread: lines with their numbers.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Error, Result, anyhow};
use fader_cloud::ItemPut;
use tokio::sync::mpsc;

use super::{Format, Options};
use crate::sdb::record::{self, Header};

/// Bytes of one line. An item has at most 256 pairs of 2 KB, which escaped grow sixfold.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Lines read ahead.
const LINES_AHEAD: usize = 256;

/// A line, with the item on it or what is wrong with it.
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) put: Result<ItemPut>,
}

/// The lines, as they are read.
pub(super) struct Reader {
    pub(super) receiver: mpsc::Receiver<Line>,
    /// Bytes of the file, where it is one.
    pub(super) total_bytes: Option<u64>,
    position: Arc<AtomicU64>,
}

impl Reader {
    /// Bytes read so far.
    pub(super) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }
}

/// Counts what passes through.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Opens the file and begins to read.
///
/// # Errors
/// When it cannot be opened.
pub(super) fn start(options: &Options) -> Result<Reader> {
    let is_standard_input = options.file == Path::new("-");
    let (source, total_bytes): (Box<dyn Read + Send>, _) = if is_standard_input {
        (Box::new(io::stdin()), None)
    } else {
        let context = || format!("cannot read {}", options.file.display());
        let file = File::open(&options.file).with_context(context)?;
        let metadata = file.metadata().with_context(context)?;
        (Box::new(file), metadata.is_file().then_some(metadata.len()))
    };
    let is_csv = options
        .file
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("csv"));
    let format = options
        .format
        .unwrap_or(if is_csv { Format::Csv } else { Format::Json });
    let position = Arc::new(AtomicU64::new(0));
    let source = Counted {
        inner: source,
        count: Arc::clone(&position),
    };
    let (sender, receiver) = mpsc::channel(LINES_AHEAD);
    let task = Task {
        field: options.item_name.clone(),
        separator: options.separator,
        replace: !options.add,
        from_line: options.from_line,
        sender,
    };
    // The thread ends with the file, or when its lines are not taken any more.
    std::thread::spawn(move || match format {
        Format::Json => task.json(source),
        Format::Csv => task.csv(source),
    });
    Ok(Reader {
        receiver,
        total_bytes,
        position,
    })
}

struct Task {
    field: Option<String>,
    separator: Option<char>,
    replace: bool,
    from_line: u64,
    sender: mpsc::Sender<Line>,
}

impl Task {
    /// Hands over a line; whether more are wanted.
    fn send(&self, number: u64, put: Result<ItemPut>) -> bool {
        number < self.from_line || self.sender.blocking_send(Line { number, put }).is_ok()
    }

    fn json(&self, source: impl Read) {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = source
                .by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line);
            match read {
                Ok(0) => return,
                Ok(_) if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") => {
                    self.send(
                        number,
                        Err(anyhow!("longer than {LINE_BYTES_MAX} bytes; stopped")),
                    );
                    return;
                }
                Ok(_) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(_) => {}
                Err(error) => {
                    self.send(number, Err(Error::from(error).context("cannot read on")));
                    return;
                }
            }
            let put = match std::str::from_utf8(&line) {
                Ok(text) => record::from_json(text, self.field.as_deref(), self.replace),
                Err(_) => Err(anyhow!("not UTF-8")),
            };
            if !self.send(number, put) {
                return;
            }
        }
    }

    fn csv(&self, source: impl Read) {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(source);
        let field = self.field.as_deref();
        let header = match reader.headers() {
            Ok(record) => Header::new(record, field),
            Err(error) => Err(error.into()),
        };
        let header = match header {
            Ok(header) => header,
            Err(error) => {
                self.send(self.from_line, Err(error.context("the header; stopped")));
                return;
            }
        };
        let mut records = reader.into_records();
        loop {
            let number = records.reader().position().line();
            let put = match records.next() {
                None => return,
                Some(Ok(record)) => {
                    let number = record.position().map_or(number, csv::Position::line);
                    let put = header.read(&record, self.separator, self.replace);
                    if !self.send(number, put) {
                        return;
                    }
                    continue;
                }
                Some(Err(error)) => error,
            };
            let is_fatal = put.is_io_error();
            if !self.send(number, Err(put.into())) || is_fatal {
                return;
            }
        }
    }
}
