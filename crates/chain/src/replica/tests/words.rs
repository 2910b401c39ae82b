//! What the words of a script's line mean.

use std::error::Error;

use bytes::Bytes;

use super::toy::{Command, collection};
use crate::*;

/// What a line says beside its words.
pub(super) struct Options<'a> {
    pub(super) name: Option<RequestId>,
    pub(super) digest: Option<Digest>,
    pub(super) to: Option<&'a str>,
    pub(super) version: Option<Version>,
    pub(super) absent: Option<&'a str>,
    pub(super) level: Option<&'a str>,
    pub(super) w: Option<usize>,
    pub(super) session: Option<&'a str>,
}

impl<'a> Options<'a> {
    pub(super) fn take(
        mut value_of: impl FnMut(&str) -> Option<&'a str>,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Options {
            name: value_of("name").map(parse_name).transpose()?,
            digest: value_of("digest")
                .map(|digest| digest.parse().map(Digest))
                .transpose()?,
            to: value_of("to"),
            version: value_of("version")
                .map(|version| version.parse().map(Version))
                .transpose()?,
            absent: value_of("away"),
            level: value_of("level"),
            w: value_of("w").map(str::parse).transpose()?,
            session: value_of("session"),
        })
    }
}

pub(super) fn parse_command(command: &str, words: &[&str]) -> Result<Command, Box<dyn Error>> {
    let bytes = |at: usize| Bytes::copy_from_slice(words[at].as_bytes());
    Ok(match command {
        "put" => Command::Put {
            key: bytes(0),
            value: bytes(1),
        },
        "add" => Command::Add {
            key: bytes(0),
            value: bytes(1),
        },
        "del" => Command::Delete { key: bytes(0) },
        "remove" => Command::Remove {
            key: bytes(0),
            value: bytes(1),
        },
        "putadd" => Command::PutAdd {
            key: bytes(0),
            value: bytes(1),
            other: bytes(2),
        },
        "puts" => {
            let pairs = words.chunks(2);
            let owned = |word: &str| Bytes::copy_from_slice(word.as_bytes());
            let pairs = pairs.map(|pair| (owned(pair[0]), owned(pair[1])));
            Command::Puts(pairs.collect())
        }
        "cas" => Command::Cas {
            key: bytes(0),
            old: bytes(1),
            value: bytes(2),
        },
        "move" => Command::Move {
            from: bytes(0),
            to: bytes(1),
        },
        "turn" => Command::Turn {
            collection: collection(words[0].as_bytes()).ok_or("eight bytes name a collection")?,
            mode: match words[1] {
                "draining" => Mode::Draining,
                word => word.parse()?,
            },
            is_abandoned: words.get(2) == Some(&"abandon"),
        },
        other => return Err(format!("no command {other}").into()),
    })
}

/// `3@2`: node 3 has been absent since epoch 2.
pub(super) fn parse_absent(word: &str) -> Result<AbsentMember, Box<dyn Error>> {
    let (node, left) = word.split_once('@').ok_or("who is away is node@epoch")?;
    let node: u32 = node.parse()?;
    Ok(AbsentMember {
        node: NodeId(node),
        incarnation: Incarnation(100 * u128::from(node) + 1),
        disk: DiskId(node.into()),
        left: left.parse()?,
        must_fill: false,
    })
}

pub(super) fn parse_level(level: &str) -> Result<Level, Box<dyn Error>> {
    if level == "barrier" {
        return Ok(Level::Barrier);
    }
    if let Some(r) = level.strip_prefix('e') {
        return Ok(Level::Eventual {
            r: r.trim_end_matches('s').parse()?,
            sloppy: r.ends_with('s'),
        });
    }
    match (level.strip_suffix("ms"), level.strip_suffix('v')) {
        (Some(bound), _) => Ok(Level::BoundMillis(bound.parse()?)),
        (_, Some(bound)) => Ok(Level::BoundVersions(bound.parse()?)),
        _ => Err(format!("no level {level}").into()),
    }
}

pub(super) fn parse_id(id: &str) -> Result<EntryId, Box<dyn Error>> {
    let (epoch, index) = id.split_once('.').ok_or("an id is epoch.index")?;
    Ok(EntryId::new(epoch.parse()?, index.parse()?))
}

pub(super) fn parse_name(name: &str) -> Result<RequestId, Box<dyn Error>> {
    // An account may stand before it, as in 5@7/1.
    let (owner, name) = name.split_once('@').unwrap_or(("0", name));
    let mut words = name.split('/');
    let mut next = || {
        words
            .next()
            .ok_or("a name is client/seq or client/seq/part")
    };
    Ok(RequestId {
        client: Client {
            owner: owner.parse()?,
            id: next()?.parse()?,
        },
        seq: next()?.parse()?,
        part: next().unwrap_or("0").parse()?,
    })
}
