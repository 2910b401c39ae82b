//! The lines of standard input, read on a thread of their own.

use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _};

use anyhow::{Result, anyhow};
use tokio::sync::mpsc;

/// Bytes of one line: a message of 1 MiB, with any escapes of its JSON.
const LINE_BYTES_MAX: u64 = 8 << 20;
/// Lines read ahead.
const LINES_AHEAD: usize = 256;

/// A line with its number, from 1.
pub(super) type Line = (u64, Result<String>);

/// Begins to read.
pub(super) fn start() -> mpsc::Receiver<Line> {
    if io::stdin().is_terminal() {
        note!("each line is a message; Ctrl-D ends");
    }
    let (sender, receiver) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut input = BufReader::new(io::stdin());
        for number in 1.. {
            match read(&mut input).transpose() {
                None => return,
                Some(line) => {
                    // What comes after a line that cannot be read is none of its rest.
                    let is_last = line.is_err();
                    if sender.blocking_send((number, line)).is_err() || is_last {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// The next line without its end; nothing at the end of the input.
fn read(input: &mut impl io::BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    let count = input.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if count == 0 {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_some() {
        line.pop_if(|last| *last == b'\r');
    } else if count as u64 == LINE_BYTES_MAX {
        return Err(anyhow!("it has more than {LINE_BYTES_MAX} bytes"));
    }
    let line = String::from_utf8(line);
    line.map(Some).map_err(|_| anyhow!("it is not UTF-8"))
}
