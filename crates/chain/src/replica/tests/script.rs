//! The language of the scripts.
//!
//! ```text
//! start 1 2 3                       restart with what the disk holds, or begin
//! configure 1 star 1 2 3 [to=1,2]   epoch, wiring, seats in order (`3s` is syncing), who hears it
//! lease 1 2 3                       they may serve for the next 1000 ms
//! put 1 10 k a [name=7/1]           at member 1, under token 10; also del, cas, move, add
//! read 1 11 k [level=2v|100ms]      also readall
//! run                               disks and links work until nothing is left to do
//! flush · sync 1 · deliver 1 2 · drop 1 2 · crash 1 · tick 300 · state
//! ```

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use goldenscript::{Command as Line, Context, Runner};

use super::cluster::{Cluster, Command};
use crate::*;

#[derive(Default)]
struct Script(Cluster);

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
        let name = args.take_key("name");
        let to = args.take_key("to");
        let level = args.take_key("level");
        let mut words = Vec::new();
        while let Some(word) = args.next_pos() {
            words.push(word);
        }
        args.reject_next()?;
        self.perform(&line.name, &words, name, to, level)?;
        let events = std::mem::take(&mut self.0.events);
        Ok(events.iter().map(|event| format!("{event}\n")).collect())
    }
}

impl Script {
    fn perform(
        &mut self,
        command: &str,
        words: &[&str],
        name: Option<&str>,
        to: Option<&str>,
        level: Option<&str>,
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
            "configure" => self.configure(words, to)?,
            "put" | "del" | "cas" | "move" | "add" => self.submit(command, words, name)?,
            "read" | "readall" => self.read(command, words, level)?,
            "run" => cluster.run(),
            "flush" => cluster.flush(),
            "deliver" => {
                let moved = cluster.deliver(number(0)?, number(1)?);
                if !moved {
                    return Err("no message on that link".into());
                }
            }
            "drop" => drop(cluster.links.remove(&(number(0)?, number(1)?))),
            "tick" => {
                cluster.now.monotonic += u64::from(number(0)?);
                cluster.now.wall += u64::from(number(0)?);
                let nodes: Vec<u32> = cluster.members.keys().copied().collect();
                nodes
                    .into_iter()
                    .for_each(|node| cluster.step(node, Input::Tick));
            }
            "state" => self.state(),
            other => return Err(format!("no command {other}").into()),
        }
        Ok(())
    }

    fn configure(&mut self, words: &[&str], to: Option<&str>) -> Result<(), Box<dyn Error>> {
        let wiring = match words[1] {
            "star" => Wiring::Star,
            "chain" => Wiring::Chain,
            other => return Err(format!("no wiring {other}").into()),
        };
        let mut seats = Vec::new();
        for word in &words[2..] {
            let node: u32 = word.trim_end_matches('s').parse()?;
            let lives = self.0.members[&node].lives;
            let Identity {
                node,
                incarnation,
                disk,
            } = Cluster::identity(node, lives);
            let role = match word.ends_with('s') {
                true => Role::Syncing,
                false => Role::Serving,
            };
            seats.push(Seat {
                node,
                incarnation,
                disk,
                role,
            });
        }
        let serving = seats.iter().filter(|seat| seat.role == Role::Serving);
        let configuration = Configuration {
            epoch: words[0].parse()?,
            wiring,
            last_serving: serving.map(|seat| (seat.node, seat.disk)).collect(),
            seats,
            floor: EntryId::ZERO,
        };
        let hearers: Vec<u32> = match to {
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
        name: Option<&str>,
    ) -> Result<(), Box<dyn Error>> {
        let bytes = |at: usize| Bytes::copy_from_slice(words[at].as_bytes());
        let node: u32 = words[0].parse()?;
        let token = Token(words[1].parse()?);
        let request = match command {
            "put" => Command::Put {
                key: bytes(2),
                value: bytes(3),
            },
            "add" => Command::Add {
                key: bytes(2),
                value: bytes(3),
            },
            "del" => Command::Delete { key: bytes(2) },
            "cas" => Command::Cas {
                key: bytes(2),
                old: bytes(3),
                value: bytes(4),
            },
            _ => Command::Move {
                from: bytes(2),
                to: bytes(3),
            },
        };
        let name = name.map(parse_name).transpose()?;
        let member = self.0.members.get_mut(&node).ok_or("no such member")?;
        member.host.requests.borrow_mut().insert(token, request);
        self.0.step(
            node,
            Input::Submit {
                token,
                request: name,
                barrier: Vec::new(),
            },
        );
        Ok(())
    }

    fn read(
        &mut self,
        command: &str,
        words: &[&str],
        level: Option<&str>,
    ) -> Result<(), Box<dyn Error>> {
        let level = match level {
            None => Level::Strong,
            Some(level) => match (level.strip_suffix("ms"), level.strip_suffix('v')) {
                (Some(bound), _) => Level::BoundMillis(bound.parse()?),
                (_, Some(bound)) => Level::BoundVersions(bound.parse()?),
                _ => return Err(format!("no level {level}").into()),
            },
        };
        let scope = match command {
            "readall" => Scope::All,
            _ => Scope::Keys(vec![Bytes::copy_from_slice(words[2].as_bytes())]),
        };
        self.0.step(
            words[0].parse()?,
            Input::Read {
                token: Token(words[1].parse()?),
                scope,
                level,
                session: Session::default(),
            },
        );
        Ok(())
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

fn parse_name(name: &str) -> Result<RequestId, Box<dyn Error>> {
    let (client, seq) = name.split_once('/').ok_or("a name is client/seq")?;
    Ok(RequestId {
        client: client.parse()?,
        seq: seq.parse()?,
        part: 0,
    })
}
