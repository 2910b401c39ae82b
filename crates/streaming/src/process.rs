//! A child process that is fed and read at once, so that neither side waits for the other.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use fader_mapreduce::{Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::frames::Frames;
use crate::lines::Lines;

/// Bytes that are gathered before they are written.
const GATHERED: usize = 64 << 10;
/// Bytes that are read at once.
const READ: usize = 64 << 10;
/// The last bytes of standard error that a failure tells.
const TOLD: usize = 600;
/// Different counters of a process, at most.
const COUNTERS_MAX: usize = 1_000;
/// How often an end is looked for once all is read.
const LOOK: Duration = Duration::from_millis(5);

/// How standard output is cut.
#[derive(Debug)]
pub(crate) enum Cut {
    /// Into lines.
    Lines(Lines),
    /// Into frames.
    Frames(Frames),
}

impl Cut {
    fn feed(&mut self, bytes: &[u8], take: Take<'_>) -> Outcome<()> {
        match self {
            Cut::Lines(lines) => lines.feed(bytes, take),
            Cut::Frames(frames) => frames.feed(bytes, take),
        }
    }

    fn finish(&mut self, take: Take<'_>) -> Outcome<()> {
        match self {
            Cut::Lines(lines) => lines.finish(take),
            Cut::Frames(frames) => frames.finish(),
        }
    }
}

/// Takes a line or a frame of standard output.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[u8]) -> Outcome<()>;

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// What it is, for failures.
    name: String,
    pending: Vec<u8>,
    cut: Cut,
    said: Said,
    timeout: Option<Duration>,
    is_exit_judged: bool,
    buffer: Vec<u8>,
}

/// What a program said on standard error.
#[derive(Debug, Default)]
struct Said {
    lines: Lines,
    last: VecDeque<String>,
    counters: BTreeMap<String, u64>,
}

impl Said {
    /// `reporter:counter:GROUP,COUNTER,AMOUNT`, `reporter:status:MESSAGE`, or any other line.
    fn take(last: &mut VecDeque<String>, counters: &mut BTreeMap<String, u64>, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        if line.starts_with("reporter:status:") {
            return;
        }
        if let Some((name, amount)) = line.strip_prefix("reporter:counter:").and_then(counter) {
            if counters.contains_key(&name) || counters.len() < COUNTERS_MAX {
                let sum = counters.entry(name).or_default();
                *sum = sum.saturating_add(amount);
            }
            return;
        }
        let from = line.len().saturating_sub(TOLD);
        let from = (from..=line.len()).find(|at| line.is_char_boundary(*at));
        last.push_back(line[from.unwrap_or(line.len())..].to_owned());
        while TOLD < last.iter().map(|line| line.len() + 1).sum::<usize>() && 1 < last.len() {
            last.pop_front();
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Outcome<()> {
        let Said {
            lines,
            last,
            counters,
        } = self;
        lines.feed(bytes, &mut |line| {
            Said::take(last, counters, line);
            Ok(())
        })
    }
}

/// `GROUP,COUNTER,AMOUNT` as `GROUP: COUNTER` with its amount.
fn counter(text: &str) -> Option<(String, u64)> {
    let (names, amount) = text.rsplit_once(',')?;
    let (group, counter) = names.split_once(',')?;
    let amount = amount.trim().parse().ok()?;
    Some((format!("{}: {}", group.trim(), counter.trim()), amount))
}

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    /// `Task`: it does not start.
    pub(crate) fn start(
        mut command: Command,
        name: String,
        cut: Cut,
        timeout: Option<Duration>,
        is_exit_judged: bool,
    ) -> Outcome<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // All that it starts can be ended together.
            .process_group(0);
        let failed = |error: io::Error| Failure::task(format!("{name} does not start: {error}"));
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Process {
            child,
            stdin,
            stdout,
            stderr,
            pending: Vec::new(),
            cut,
            said: Said::default(),
            timeout,
            is_exit_judged,
            buffer: vec![0; READ],
            name,
        };
        process.unblock().map_err(|error| process.lost(&error))?;
        Ok(process)
    }

    fn unblock(&self) -> io::Result<()> {
        if let Some(pipe) = &self.stdin {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        if let Some(pipe) = &self.stdout {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        if let Some(pipe) = &self.stderr {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(())
    }

    fn lost(&self, error: &io::Error) -> Failure {
        Failure::task(format!("{}: {error}", self.name))
    }

    /// Gives it input. What it wrote meanwhile is taken.
    ///
    /// # Errors
    /// `Task`: it ended, reads no more, or hangs. Those of `take`.
    pub(crate) fn feed(&mut self, bytes: &[u8], take: Take<'_>) -> Outcome<()> {
        self.pending.extend_from_slice(bytes);
        match self.pending.len() < GATHERED {
            true => Ok(()),
            false => self.pump(take, |process| process.pending.is_empty()),
        }
    }

    /// Ends its input, and waits for its end. Its counters.
    ///
    /// # Errors
    /// As [`Process::feed`]; `Task`: it failed.
    pub(crate) fn end(mut self, take: Take<'_>) -> Outcome<BTreeMap<String, u64>> {
        self.pump(take, |process| process.pending.is_empty())?;
        self.stdin = None;
        self.pump(take, |process| {
            process.stdout.is_none() && process.stderr.is_none()
        })?;
        let status = self.status()?;
        if self.is_exit_judged && !status.success() {
            return Err(self.failed(&ended(status)));
        }
        let finished = self.cut.finish(take);
        finished.map_err(|failure| self.told(failure))?;
        Ok(std::mem::take(&mut self.said.counters))
    }

    /// Its exit status. It has closed its output, and may do something yet.
    fn status(&mut self) -> Outcome<ExitStatus> {
        let mut left = self.timeout;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(self.lost(&error)),
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(self.hangs());
            }
            left = left.map(|left| left.saturating_sub(LOOK));
            std::thread::sleep(LOOK);
        }
    }

    fn hangs(&self) -> Failure {
        let time = self.timeout.unwrap_or_default().as_millis();
        self.failed(&format!("neither read nor wrote for {time} ms"))
    }

    /// A failure of what it wrote, with its name and what it said.
    pub(crate) fn told(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Task(text) => self.failed(&text),
            failure => failure,
        }
    }

    fn failed(&self, how: &str) -> Failure {
        let said: Vec<&str> = self.said.last.iter().map(String::as_str).collect();
        let said = said.join("\n");
        match said.is_empty() {
            true => Failure::task(format!("{} {how}", self.name)),
            false => Failure::task(format!("{} {how}: {said}", self.name)),
        }
    }

    /// Writes and reads until this is so.
    fn pump(&mut self, take: Take<'_>, is_done: impl Fn(&Process) -> bool) -> Outcome<()> {
        while !is_done(self) {
            let ready = self.wait().map_err(|error| self.lost(&error))?;
            let Some(ready) = ready else {
                return Err(self.hangs());
            };
            if ready.output {
                self.read_output(take)?;
            }
            if ready.messages {
                self.read_messages()?;
            }
            if ready.input {
                self.write(take)?;
            }
        }
        Ok(())
    }

    /// Which pipes may be used; `None`: none for the whole timeout.
    fn wait(&self) -> io::Result<Option<Ready>> {
        let mut pipes = Vec::with_capacity(3);
        let writes = !self.pending.is_empty();
        if let Some(pipe) = self.stdin.as_ref().filter(|_| writes) {
            pipes.push((0, PollFd::new(pipe, PollFlags::OUT)));
        }
        if let Some(pipe) = &self.stdout {
            pipes.push((1, PollFd::new(pipe, PollFlags::IN)));
        }
        if let Some(pipe) = &self.stderr {
            pipes.push((2, PollFd::new(pipe, PollFlags::IN)));
        }
        let (of, mut fds): (Vec<usize>, Vec<PollFd<'_>>) = pipes.into_iter().unzip();
        let timeout = self.timeout.map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: time.subsec_nanos().into(),
        });
        loop {
            match poll(&mut fds, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(0) => return Ok(None),
                Ok(_) => break,
            }
        }
        let is_ready = |pipe: usize| {
            let mut found = of.iter().zip(&fds);
            found.any(|(of, fd)| *of == pipe && !fd.revents().is_empty())
        };
        Ok(Some(Ready {
            input: is_ready(0),
            output: is_ready(1),
            messages: is_ready(2),
        }))
    }

    fn read_output(&mut self, take: Take<'_>) -> Outcome<()> {
        let Some(pipe) = &mut self.stdout else {
            return Ok(());
        };
        match pipe.read(&mut self.buffer) {
            Ok(0) => self.stdout = None,
            Ok(count) => {
                let fed = self.cut.feed(&self.buffer[..count], take);
                return fed.map_err(|failure| self.told(failure));
            }
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(self.lost(&error)),
        }
        Ok(())
    }

    fn read_messages(&mut self) -> Outcome<()> {
        let Some(pipe) = &mut self.stderr else {
            return Ok(());
        };
        match pipe.read(&mut self.buffer) {
            Ok(0) => self.stderr = None,
            Ok(count) => self.said.feed(&self.buffer[..count])?,
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(self.lost(&error)),
        }
        Ok(())
    }

    fn write(&mut self, take: Take<'_>) -> Outcome<()> {
        let Some(pipe) = &mut self.stdin else {
            return Ok(());
        };
        match pipe.write(&self.pending) {
            Ok(count) => drop(self.pending.drain(..count)),
            Err(error) if is_later(&error) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(self.deaf(take)),
            Err(error) => return Err(self.lost(&error)),
        }
        Ok(())
    }

    /// It reads no more: what it said and how it ended, if it ends.
    fn deaf(&mut self, take: Take<'_>) -> Failure {
        self.stdin = None;
        self.pending.clear();
        let rest = self.pump(take, |process| {
            process.stdout.is_none() && process.stderr.is_none()
        });
        let status = rest.and_then(|()| self.status());
        match status {
            Ok(status) if status.success() => {
                self.failed("ended before it had read all of its input")
            }
            Ok(status) => self.failed(&ended(status)),
            Err(failure) => failure,
        }
    }
}

/// Pipes that may be used.
struct Ready {
    input: bool,
    output: bool,
    messages: bool,
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            // It may end at this moment.
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests;
