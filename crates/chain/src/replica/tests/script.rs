//! The language of the scripts.
//!
//! ```text
//! start 1 2 3                       restart with what the disk holds, or begin
//! configure 1 star 1 2 3 [to=1,2] [away=3@1]
//!                                   epoch, wiring, members in order (`3s` is syncing, `3l` is
//!                                   leaving), who hears it,
//!                                   and who is absent since when
//! lease 1 2 3                       they may serve for the next 1000 ms
//! put 1 10 k a [name=7/1]           at member 1, under token 10; also del, cas, move, add, remove,
//!                                   putadd, puts; [barrier] settles what is tentative first
//! put 1 10 k a w=2 [sloppy] [session=s]     the same as an eventual write; also the others
//! read 1 11 k [level=2v|100ms|e2|e1s|barrier] [session=s]     also readall
//! outcome 1 12 7/1                  how an eventual write ended
//! turn 1 13 cart-one mixed [abandon]        gives the keys that begin so another mode
//! close 1 14 cart-one               makes them strong when nothing is left; awaited 1 cart-one
//! forge s k 9.9 8/1                 session s has seen 8/1 of k, based on 9.9
//! settle 1 add k a 1.2 7            member 1 appends an eventual operation based on 1.2, clock 7
//! load 1 200 9000 [name=7/1]        so many registers of so many bytes are put at member 1
//! lose 3 · rot 3 k                  member 3 crashes and its disk is empty; a row of it is lost
//! hold 2 · take 2                   its engine is slow to take entries; takes them all
//! floor 1.4 · window 2 · floors     the safe point of later configurations; of later starts; shows
//!                                   its reports
//! bounds 2 1                        of later starts: entries without a commit, own operations
//! idle 1000 · names 1               of later starts; what is kept of names
//! same 1 2 · marks 1 · links        compare engines; what is left to collect; what is under way
//! compared 1                        how often member 1 compared a part of what it fills from
//! run                               disks and links work until nothing is left to do
//! flush · sync 1 · deliver 1 2 · drop 1 2 · crash 1 · tick 300 · skew 1 600 · state · held · rests
//! ```

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use goldenscript::{Command as Line, Context, Runner};

use super::cluster::{Cluster, LOADING};
use super::toy::{Command, collection, show_name, show_stamp};
use super::words::{Options, parse_absent, parse_command, parse_id, parse_level, parse_name};
use crate::*;

#[derive(Default)]
struct Script(Cluster);

/// What the lines of a script show, without some guards.
#[cfg(feature = "mutants")]
pub(super) fn shown_without(guards: Guards, lines: &str) -> String {
    let mut script = Script::default();
    script.0.guards = guards;
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let words = line.split_whitespace();
        let mut words: Vec<&str> = words.map(|word| word.trim_matches('"')).collect();
        let options = Options::take(|key| {
            let is_it = |word: &&str| word.split_once('=').is_some_and(|(it, _)| it == key);
            let word = words.remove(words.iter().position(is_it)?);
            word.split_once('=')
                .map(|(_, value)| value.trim_matches('"'))
        });
        script
            .perform(words[0], &words[1..], &options.unwrap())
            .unwrap();
    }
    script.0.events.join("\n")
}

/// The lines of `testscripts/replica/{name}`.
#[cfg(feature = "mutants")]
pub(super) fn lines_of(name: &str) -> String {
    let script = std::fs::read_to_string(format!("testscripts/replica/{name}")).unwrap();
    let blocks = script
        .split("\n\n")
        .filter_map(|block| block.split("---\n").next());
    let lines = blocks.flat_map(str::lines);
    let lines = lines.filter(|line| !line.starts_with(['#', '-']));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Runs `testscripts/replica/{name}` and compares its output.
#[track_caller]
pub(super) fn check(name: &str) {
    goldenscript::run(
        &mut Script::default(),
        format!("testscripts/replica/{name}"),
    )
    .unwrap();
}

impl Runner for Script {
    type Command = Line;

    fn run(&mut self, line: &Line, _context: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = line.consume_args();
        let mut words = Vec::new();
        let options = Options::take(|key| args.take_key(key))?;
        while let Some(word) = args.next_pos() {
            words.push(word);
        }
        args.reject_next()?;
        self.perform(&line.name, &words, &options)?;
        let events = std::mem::take(&mut self.0.events);
        Ok(events.iter().map(|event| format!("{event}\n")).collect())
    }
}

impl Script {
    fn perform(
        &mut self,
        command: &str,
        words: &[&str],
        options: &Options<'_>,
    ) -> Result<(), Box<dyn Error>> {
        let cluster = &mut self.0;
        let number = |at: usize| -> Result<u32, Box<dyn Error>> { Ok(words[at].parse()?) };
        match command {
            "start" => each(words, |node| cluster.start(node))?,
            "crash" => each(words, |node| cluster.crash(node))?,
            "sync" => each(words, |node| {
                cluster.sync(node);
            })?,
            "lease" => {
                let until = cluster.now.monotonic + 1_000;
                each(words, |node| cluster.step(node, Input::Lease { until }))?;
            }
            "configure" => self.configure(words, options)?,
            "read" | "readall" => self.read(command, words, options)?,
            "outcome" => self.outcome(words, options)?,
            "run" => cluster.run(),
            "flush" => cluster.flush(),
            "deliver" => {
                let moved = cluster.deliver(number(0)?, number(1)?);
                if !moved {
                    return Err("no message on that link".into());
                }
            }
            "drop" => drop(cluster.links.remove(&(number(0)?, number(1)?))),
            "forge" => self.forge(words)?,
            "skew" => {
                let member = cluster.members.get_mut(&number(0)?);
                member.ok_or("no such member")?.skew = words[1].parse()?;
            }
            "tick" => self.tick(number(0)?),
            "state" => self.state(),
            "counts" => self.counts(),
            "waits" => self.waits(),
            "rests" => self.rests(),
            "settle" => self.settle(words)?,
            "load" => self.load(words, options)?,
            "hold" => each(words, |node| cluster.hold(node))?,
            "take" => each(words, |node| cluster.take(node))?,
            "rot" => cluster.bit_rot(number(0)?, words[1].as_bytes()),
            "copy" => each(words, |node| cluster.copy(node))?,
            "paste" => each(words, |node| cluster.paste(node))?,
            "lose" => each(words, |node| cluster.lose(node))?,
            "idle" => cluster.settings.idle_ms = number(0)?.into(),
            "names" => self.names(number(0)?),
            "rate" => cluster.settings.fill_bytes_per_second = number(0)?.into(),
            "catchup" => cluster.settings.catch_up_max = words[0].parse()?,
            "floor" => cluster.safe_point = parse_id(words[0])?,
            "lossy" => {
                cluster.lossy.count += 1;
                cluster.lossy.epoch = number(0)?.into();
            }
            "window" => cluster.settings.window_entries = words[0].parse()?,
            "bounds" => self.bound(words)?,
            "floors" => cluster.shows_safe_points = true,
            "same" => self.compare(number(0)?, number(1)?),
            "marks" => self.marks(number(0)?)?,
            "links" => self.links(),
            "compared" => self.compared(number(0)?),
            "held" => self.held(),
            "close" => self.close(words)?,
            "awaited" => self.awaited(words)?,
            _ => self.submit(command, words, options)?,
        }
        Ok(())
    }

    fn tick(&mut self, ms: u32) {
        let cluster = &mut self.0;
        cluster.now.monotonic += u64::from(ms);
        cluster.now.wall += u64::from(ms);
        let nodes: Vec<u32> = cluster.members.keys().copied().collect();
        for node in nodes {
            cluster.step(node, Input::Tick);
        }
    }

    /// Uncommitted entries of a head, then own operations of a member, at most.
    fn bound(&mut self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let settings = &mut self.0.settings;
        settings.uncommitted_max = words[0].parse()?;
        settings.own_operations_max = words[1].parse()?;
        Ok(())
    }

    fn configure(&mut self, words: &[&str], options: &Options<'_>) -> Result<(), Box<dyn Error>> {
        let wiring = match words[1] {
            "star" => Wiring::Star,
            "chain" => Wiring::Chain,
            other => return Err(format!("no wiring {other}").into()),
        };
        let mut members = Vec::new();
        let mut absent: Vec<AbsentMember> = options.absent.map_or(Ok(Vec::new()), |absent| {
            absent.split(',').map(parse_absent).collect()
        })?;
        for word in &words[2..] {
            let (word, must_fill) = match word.strip_suffix('w') {
                Some(word) => (word, true),
                None => (*word, false),
            };
            let node: u32 = word.trim_end_matches(['s', 'l']).parse()?;
            let Identity {
                node,
                incarnation,
                disk,
            } = self.0.identity(node);
            let role = match word.chars().last() {
                Some('s') => Role::Syncing,
                Some('l') => Role::Leaving,
                _ => Role::Serving,
            };
            members.push(ChainMember {
                node,
                incarnation,
                disk,
                role,
            });
            if must_fill {
                let left = words[0].parse()?;
                absent.push(AbsentMember {
                    node,
                    incarnation,
                    disk,
                    left,
                    must_fill,
                });
            }
        }
        let serving = members.iter().filter(|member| member.role == Role::Serving);
        let configuration = Configuration {
            epoch: words[0].parse()?,
            wiring,
            last_serving: serving.map(|member| (member.node, member.disk)).collect(),
            absent,
            members,
            safe_point: self.0.safe_point,
            lossy: self.0.lossy,
            version: options.version.unwrap_or(Version::NEWEST),
        };
        let hearers: Vec<u32> = match options.to {
            Some(to) => to.split(',').map(str::parse).collect::<Result<_, _>>()?,
            None => self.0.members.keys().copied().collect(),
        };
        self.0.configure(&Arc::new(configuration), &hearers);
        Ok(())
    }

    fn submit(
        &mut self,
        command: &str,
        words: &[&str],
        options: &Options<'_>,
    ) -> Result<(), Box<dyn Error>> {
        let sloppy = words.last() == Some(&"sloppy");
        let barrier = words.last() == Some(&"barrier");
        let words = &words[..words.len() - usize::from(sloppy || barrier)];
        let node: u32 = words[0].parse()?;
        let token = CorrelationId(words[1].parse()?);
        let command = parse_command(command, &words[2..])?;
        let member = self.0.members.get_mut(&node).ok_or("no such member")?;
        member.host.requests.borrow_mut().insert(token, command);
        let key = Bytes::copy_from_slice(words[2].as_bytes());
        let session = self.ask(token, options.session, Scope::Keys(vec![key.clone()]));
        let request = options.name;
        let input = match options.w {
            Some(w) => Input::Write {
                token,
                request,
                digest: options.digest,
                w,
                sloppy,
                session,
            },
            None => Input::Submit {
                token,
                request,
                barrier: barrier.then_some(key).into_iter().collect(),
            },
        };
        self.0.step(node, input);
        Ok(())
    }

    fn outcome(&mut self, words: &[&str], options: &Options<'_>) -> Result<(), Box<dyn Error>> {
        let names = words[2..].iter().map(|name| parse_name(name));
        let outcome = Input::Outcome {
            token: CorrelationId(words[1].parse()?),
            names: names.collect::<Result<_, _>>()?,
            digest: options.digest,
        };
        self.0.step(words[0].parse()?, outcome);
        Ok(())
    }

    fn close(&mut self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let (node, token) = (words[0].parse()?, CorrelationId(words[1].parse()?));
        let collection = collection(words[2].as_bytes()).ok_or("no collection")?;
        let turn = Command::Turn {
            collection,
            mode: Mode::Strong,
            is_abandoned: false,
        };
        let member = self.0.members.get_mut(&node).ok_or("no such member")?;
        member.host.requests.get_mut().insert(token, turn);
        self.0.step(node, Input::Close { token, collection });
        Ok(())
    }

    /// Whom a change of mode waits for.
    fn awaited(&mut self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let member = &self.0.members[&words[0].parse()?];
        let collection = collection(words[1].as_bytes()).ok_or("no collection")?;
        let (absent, silent) = member.replica.awaited(collection, &member.host.store)?;
        self.0
            .events
            .push(format!("away {absent:?}, silent {silent:?}"));
        Ok(())
    }

    fn settle(&mut self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let bytes = |at: usize| Bytes::copy_from_slice(words[at].as_bytes());
        let (group, value) = (Bytes::from_static(b"v"), bytes(3));
        let op = match words[1] {
            "add" => ElementOp::Add { group, value },
            "remove" => ElementOp::Remove { group, value },
            other => return Err(format!("no operation {other}").into()),
        };
        let stamp = Stamp {
            clock: words[5].parse()?,
            ..Stamp::strong(parse_id(words[4])?)
        };
        self.0.settle(words[0].parse()?, &bytes(2), vec![op], stamp);
        Ok(())
    }

    fn load(&mut self, words: &[&str], options: &Options<'_>) -> Result<(), Box<dyn Error>> {
        let (node, count): (u32, u64) = (words[0].parse()?, words[1].parse()?);
        let value = Bytes::from(vec![b'x'; words[2].parse()?]);
        for number in 0..count {
            let token = CorrelationId(LOADING.0 + number);
            let key = Bytes::from(format!("load{number:06}"));
            let value = value.clone();
            let member = self.0.members.get_mut(&node).ok_or("no such member")?;
            let requests = member.host.requests.get_mut();
            requests.insert(token, Command::Put { key, value });
            let request = options.name.map(|name| RequestId {
                seq: name.seq + number,
                ..name
            });
            let barrier = Vec::new();
            self.0.step(
                node,
                Input::Submit {
                    token,
                    request,
                    barrier,
                },
            );
        }
        Ok(())
    }

    fn compare(&mut self, one: u32, other: u32) {
        let differences = self.0.differences(one, other);
        let event = match differences.is_empty() {
            true => "the same".to_owned(),
            false => format!("different in {} keys", differences.len()),
        };
        self.0.events.push(event);
    }

    fn forge(&mut self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let stamp = Stamp {
            clock: 1,
            ..Stamp::strong(parse_id(words[2])?)
        };
        let key = Bytes::copy_from_slice(words[1].as_bytes());
        let seen = (key, stamp, parse_name(words[3])?);
        let session = self.0.sessions.entry(words[0].to_owned()).or_default();
        session.tentative.push(seen);
        Ok(())
    }

    fn compared(&mut self, node: u32) {
        let looks = self.0.members[&node].host.looks.get();
        self.0
            .events
            .push(format!("n{node} has compared {looks} ranges"));
    }

    fn links(&mut self) {
        for ((from, to), messages) in &self.0.links {
            let names = messages.iter().map(|envelope| {
                let message = format!("{:?}", envelope.message);
                message.split(' ').next().unwrap_or_default().to_owned()
            });
            let names: Vec<String> = names.collect();
            if !names.is_empty() {
                let event = format!("n{from} to n{to}: {}", names.join(", "));
                self.0.events.push(event);
            }
        }
    }

    /// What is kept of names: results and clients.
    fn names(&mut self, node: u32) {
        let rows = &self.0.members[&node].host.store.rows;
        let events = rows.keys().filter_map(|key| {
            let result =
                parse_result_key(key).map(|name| format!("result of {}", show_name(&name)));
            result.or_else(|| Some(format!("client {}", parse_client_key(key)?.id)))
        });
        let events: Vec<String> = events.collect();
        self.0.events.extend(events);
    }

    /// The registers that hold marks, and the rows.
    fn marks(&mut self, node: u32) -> Result<(), Box<dyn Error>> {
        let rows = &self.0.members[&node].host.store.rows;
        let mut events = Vec::new();
        for (key, value) in rows {
            if let Some((entry, register)) = parse_row_key(key) {
                let register = String::from_utf8_lossy(register);
                events.push(format!("row of {entry} for {register}"));
            } else if key[0] != 0xff {
                let register = Register::decode(value.clone())?;
                let count = register.mark_count();
                if count != 0 {
                    let key = String::from_utf8_lossy(key);
                    events.push(format!("{key} has {count} marks"));
                }
            }
        }
        self.0.events.extend(events);
        Ok(())
    }

    /// The request of `token` is about `scope`; gives what its session has seen.
    fn ask(&mut self, token: CorrelationId, session: Option<&str>, scope: Scope) -> Session {
        let name = session.map(str::to_owned);
        self.0.asked.insert(token, (name, scope));
        let seen = session.and_then(|name| self.0.sessions.get(name));
        seen.cloned().unwrap_or_default()
    }

    fn read(
        &mut self,
        command: &str,
        words: &[&str],
        options: &Options<'_>,
    ) -> Result<(), Box<dyn Error>> {
        let level = options.level.map_or(Ok(Level::Strong), parse_level)?;
        let scope = match command {
            "readall" => Scope::All,
            _ => {
                let keys = words[2..].iter();
                let keys = keys.map(|key| Bytes::copy_from_slice(key.as_bytes()));
                Scope::Keys(keys.collect())
            }
        };
        let token = CorrelationId(words[1].parse()?);
        let session = self.ask(token, options.session, scope.clone());
        let session = options.session.map(|_| session);
        self.0.step(
            words[0].parse()?,
            Input::Read {
                token,
                scope,
                level,
                session,
            },
        );
        Ok(())
    }

    fn held(&mut self) {
        for (node, member) in &self.0.members {
            let operations = member.replica.operations_within(b"a", b"z");
            let operations = operations.map(|operation| {
                let (name, stamp) = (show_name(&operation.name), show_stamp(operation.stamp));
                format!("{name} is {stamp} with {}", operation.ops.len())
            });
            let held: Vec<String> = operations.collect();
            let counts = member.replica.eventual_counts();
            let quarantined = match counts.quarantined {
                0 => String::new(),
                count => format!(", {count} quarantined"),
            };
            let held = format!("n{node} holds {}{quarantined}", held.join(", "));
            self.0.events.push(held);
        }
    }

    fn counts(&mut self) {
        for (node, member) in &self.0.members {
            let replica = &member.replica;
            let (counters, eventual) = (replica.counters(), replica.eventual_counts());
            let behind = replica.behind(self.0.now).into_iter();
            let behind = behind.map(|it| {
                let (entries, millis) = (it.entries, it.millis);
                format!("; n{} is {entries} entries, {millis} ms behind", it.node.0)
            });
            self.0.events.push(format!(
                "n{node} dirty {} asked {} answered {}, settled {} in {} ms{}",
                counters.dirty_reads,
                counters.queries_asked,
                counters.queries_answered,
                eventual.settled,
                eventual.settled_ms,
                behind.collect::<String>(),
            ));
        }
    }

    fn waits(&mut self) {
        for (node, member) in self.0.members.iter().filter(|(_, it)| it.is_up) {
            let waits = member.replica.wait_reasons(self.0.now);
            let event = format!("n{node} waits for {waits:?}");
            self.0.events.push(event);
        }
    }

    fn rests(&mut self) {
        for (node, member) in self.0.members.iter().filter(|(_, it)| it.is_up) {
            let event = match member.replica.is_at_rest() {
                true => format!("n{node} rests"),
                false => format!("n{node} does not rest"),
            };
            self.0.events.push(event);
        }
    }

    fn state(&mut self) {
        for (node, member) in &self.0.members {
            let replica = &member.replica;
            let state = match member.is_up {
                false => "down".to_owned(),
                true => format!(
                    "epoch {} ready {} last {} commit {}",
                    replica.epoch(),
                    replica.is_ready(),
                    replica.last(),
                    replica.commit()
                ),
            };
            self.0.events.push(format!("n{node} {state}"));
        }
    }
}

fn each(words: &[&str], mut act: impl FnMut(u32)) -> Result<(), Box<dyn Error>> {
    for word in words {
        act(word.parse()?);
    }
    Ok(())
}
