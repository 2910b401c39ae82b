//! Runs the scripts of `testscripts/mixing`, which docs/internals/protocol/simpledb.md names line
//! by line.
//!
//! Members are `a`, `b` and `c`. A request without a member is strong and goes to the head; with
//! one (`b: put ...`) it is eventual and runs there. A tag names a write: `b: [e1] put ...`. Stamps
//! are shown as in the docs: a strong write's is its entry, `@7`; an eventual one's is its base and
//! its clock, `@6+2`.
//!
//! ```text
//! create D [MODE] | drop D | domains | metadata D
//! put D ITEM a=1 b@=2 [CONDITION]      b@= replaces     delete D ITEM a b=2 [CONDITION]
//! batch-put D ITEM a=1 , ITEM ...                       batch-delete D ITEM a , ITEM ...
//! get D ITEM [NAME ...]                ask b-c D ITEM [NAME ...]   asks two members
//! select EXPRESSION [next]             next: the page after the last one shown
//! offer NAME MEMBER ...                hands an operation on
//! promote NAME ... | promote all       settles, in this order; all: least stamp first
//! barrier D ITEM                       settles all that any member holds of an item
//! hold MEMBER ... | run MEMBER ...     applies nothing until it is run
//! mode D MODE [abandon]                gives a domain another mode, or begins to
//! drain D                              settles what any member holds, and closes what is closing
//! collect                              raises the floor to the last entry, and collects
//! register D ITEM                      the newest register, marks and stamps
//! overlay MEMBER                       names and stamps
//! permits MODE LEVEL REQUEST           at which level a request runs
//! orders D ITEM WRITE ...              every order of arrival of these writes (`orders.rs`)
//! rest                                 everything is settled and applied: all members are equal
//! ```
//!
//! Tag `[changes]`: shows what the entry changes. After every command the derived keys of every
//! member are counted again from its registers (KEY-2), and what it shows is compared with its
//! index.

mod orders;
mod random;
mod scripts;
mod world;

use std::collections::BTreeMap;
use std::error::Error as StdError;

use bytes::Bytes;
use fader_chain::{EntryId, Register, RequestId, Stamp};
use goldenscript::{Command, Context as ScriptContext, Runner};

use self::world::{Decided, Member, Operation, World};
use super::script::{set_limit, show_change, show_reply, take_condition, text};
use super::*;
use crate::catalog::NameBuf;
use crate::level::ConsistencyOptions;
use crate::{Kind, item_key, split_item_key};

struct Script {
    world: World,
    names: BTreeMap<String, u64>,
    next: Option<PageToken>,
}

impl Script {
    fn new() -> Self {
        Script {
            world: World::new(),
            names: BTreeMap::new(),
            next: None,
        }
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(
        &mut self,
        command: &Command,
        context: &ScriptContext,
    ) -> Result<String, Box<dyn StdError>> {
        let texts: Vec<String> = command.args.iter().map(text).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let member = context.prefix.as_deref().map(member);
        let shows_changes = context.tags.contains("changes");
        let name = context.tags.iter().find(|tag| *tag != "changes");
        let output = match command.name.as_str() {
            "limit" => {
                texts
                    .iter()
                    .for_each(|text| set_limit(&mut self.world.limits, text));
                String::new()
            }
            "offer" => self.offer(texts[0], &texts[1..]),
            "promote" => self.promote(&texts, shows_changes),
            "barrier" => self.barrier(&texts),
            "hold" => {
                texts
                    .iter()
                    .for_each(|name| self.world.members[member_at(name)].is_held = true);
                String::new()
            }
            "run" => self.run_members(&texts),
            "mode" => self.mode(&texts),
            "drain" => self.drain(&texts),
            "collect" => format!("{} rows\n", self.world.collect()),
            "register" => show_register(&world::register(&self.world.newest, &self.key(&texts))),
            "overlay" => self.overlay(member_at(texts[0])),
            "permits" => show_permits(&texts),
            "orders" => orders::run(&self.world, &self.key(&texts), &texts),
            "rest" => self.rest(),
            "ask" => self.quorum(&texts),
            verb => {
                let mut texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
                let request = self.request(verb, &mut texts);
                match (member, request.is_write()) {
                    (Some(at), false) => self.read(at, &request),
                    (None, false) => self.strong_read(&request),
                    (Some(at), true) => self.eventual(at, name, &request),
                    (None, true) => self.strong(name, &request, shows_changes),
                }
            }
        };
        self.check();
        Ok(output)
    }
}

fn show_change_of(entry: Option<EntryId>) -> String {
    let entry = entry.map_or("no entry".to_owned(), |id| format!("@{}", id.index));
    format!("{entry} done\n")
}

fn member(prefix: &str) -> usize {
    member_at(prefix)
}

fn member_at(name: &str) -> usize {
    ["a", "b", "c"]
        .iter()
        .position(|known| *known == name)
        .expect("a, b or c")
}

impl Script {
    fn request(&self, verb: &str, texts: &mut Vec<String>) -> Request {
        if verb == "select" {
            return Request::Select {
                expression: texts[0].clone(),
                next_token: self
                    .next
                    .clone()
                    .filter(|_| texts.iter().any(|text| text == "next")),
                consistent: false,
            };
        }
        if verb == "domains" {
            return Request::ListDomains {
                max_count: None,
                next_token: None,
            };
        }
        parse(verb, texts)
    }

    fn strong(&mut self, name: Option<&String>, request: &Request, shows_changes: bool) -> String {
        let name = name.map(|name| self.name(name));
        let Decided {
            entry,
            outcome,
            changes,
        } = self.world.strong(name, request);
        let entry = entry.map_or("no entry".to_owned(), |id| format!("@{}", id.index));
        let mut output = format!("{entry} {}\n", show_outcome(&outcome));
        if shows_changes {
            changes
                .iter()
                .for_each(|change| output.push_str(&show_change(change)));
        }
        output
    }

    fn eventual(&mut self, at: usize, name: Option<&String>, request: &Request) -> String {
        let context = self.world.context(&self.world.members[at].view, request);
        let mode = context.collection.map(|_| context.mode);
        let consistency = ConsistencyOptions {
            level: crate::level::Level::EVENTUAL,
            ..ConsistencyOptions::default()
        };
        if let Err(error) = effective_level(mode, None, &consistency, request) {
            return format!("{}\n", show_outcome(&Err(error)));
        }
        let name = name.expect("an eventual write is named by a tag");
        let id = self.name(name);
        match self.world.eventual(at, id, request) {
            Err(error) => format!("{}\n", show_outcome(&Err(error))),
            Ok(stamped) => stamped
                .iter()
                .map(|(id, stamp)| format!("{} {}\n", self.show_name(id), show_stamp(stamp)))
                .collect(),
        }
    }

    fn read(&mut self, at: usize, request: &Request) -> String {
        let member = &self.world.members[at];
        let mut context = self.world.context(&member.view, request);
        let outcome = match request {
            Request::ListDomains { .. } | Request::DomainMetadata { .. } => {
                answer(&member.view, &context, request)
            }
            _ => {
                let items = context.collection.map(|id| member.tentative.items(id));
                context.unsettled_items = items.unwrap_or(0);
                answer(&self.world.shown(at), &context, request)
            }
        };
        let mark = match request {
            Request::GetAttributes { item, .. } => match context.collection {
                Some(collection) => {
                    let key = item_key(collection, item.as_bytes());
                    let (committed, shown) = self.world.joined(&[at], &key);
                    mark(is_tentative(request, &committed, &shown))
                }
                None => "",
            },
            _ => "",
        };
        self.keep_next(&outcome);
        format!("{}{mark}\n", show_outcome(&outcome))
    }

    fn strong_read(&mut self, request: &Request) -> String {
        let context = self.world.context(&self.world.newest, request);
        let outcome = answer(&self.world.newest, &context, request);
        self.keep_next(&outcome);
        format!("{}\n", show_outcome(&outcome))
    }

    fn quorum(&mut self, texts: &[&str]) -> String {
        let members: Vec<_> = texts[0].split('-').map(member_at).collect();
        let mut rest: Vec<String> = texts[1..].iter().map(|&text| text.to_owned()).collect();
        let request = parse("get", &mut rest);
        let view = &self.world.members[members[0]].view;
        let context = self.world.context(view, &request);
        let (committed, shown) = self.world.joined(&members, &self.key(&texts[1..]));
        let is_tentative = is_tentative(&request, &committed, &shown);
        let outcome = answer_item(view, &context, &request, shown);
        format!("{}{}\n", show_outcome(&outcome), mark(is_tentative))
    }

    fn keep_next(&mut self, outcome: &Result<CostedReply, Error>) {
        if let Ok(CostedReply {
            reply: Reply::Items { next_token, .. },
            ..
        }) = outcome
        {
            self.next.clone_from(next_token);
        }
    }

    fn offer(&mut self, name: &str, members: &[&str]) -> String {
        for (id, operation) in self.operations(name) {
            for member in members {
                self.world.offer(member_at(member), id, operation.clone());
            }
        }
        String::new()
    }

    /// The operations of a name, or of all names, least stamp first; of a name that was stamped
    /// twice both.
    fn operations(&self, name: &str) -> Vec<(RequestId, Operation)> {
        let is_meant = |id: &RequestId| {
            let shown = self.show_name(id);
            name == "all"
                || shown == name
                || format!("{shown}/0") == name
                || shown.split('/').next() == Some(name)
        };
        let overlays = self.world.members.iter().flat_map(|member| &member.overlay);
        let mut found: Vec<_> = overlays
            .filter(|(id, _)| is_meant(id))
            .map(|(id, operation)| (*id, operation.clone()))
            .collect();
        found.sort_by_key(|(id, operation)| (operation.stamp, *id));
        found.dedup_by_key(|(id, operation)| (operation.stamp, *id));
        found
    }

    fn promote(&mut self, names: &[&str], shows_changes: bool) -> String {
        let meant: Vec<_> = names
            .iter()
            .flat_map(|name| self.operations(name))
            .collect();
        meant
            .into_iter()
            .map(|(id, operation)| self.settle(id, &operation, shows_changes))
            .collect()
    }

    fn settle(&mut self, id: RequestId, operation: &Operation, shows_changes: bool) -> String {
        let Some((outcome, changes)) = self.world.promote(id, operation) else {
            return format!("{} was settled before\n", self.show_name(&id));
        };
        let mut output = format!(
            "@{} {}: {}\n",
            self.world.log.len(),
            self.show_name(&id),
            settled_outcome(&outcome).unwrap()
        );
        if shows_changes {
            changes
                .iter()
                .for_each(|change| output.push_str(&show_change(change)));
        }
        output
    }

    fn barrier(&mut self, texts: &[&str]) -> String {
        let key = self.key(texts);
        let mut meant = self.operations("all");
        meant.retain(|(_, operation)| operation.key == key);
        meant
            .into_iter()
            .map(|(id, operation)| self.settle(id, &operation, false))
            .collect()
    }

    fn run_members(&mut self, names: &[&str]) -> String {
        for at in names.iter().map(|name| member_at(name)) {
            self.world.members[at].is_held = false;
            self.world.catch_up(at);
        }
        String::new()
    }

    fn mode(&mut self, texts: &[&str]) -> String {
        self.catalog(&catalog::Command::SetMode {
            name: NameBuf {
                kind: Kind::Domain,
                account: AccountId(world::ACCOUNT.to_owned()),
                name: texts[0].to_owned(),
            },
            mode: texts[1].parse().unwrap(),
            abandon: texts.get(2) == Some(&"abandon"),
        })
    }

    /// MD-4: the members that are not held answer; one that is held is away.
    fn drain(&mut self, texts: &[&str]) -> String {
        let collection = self.collection(texts[0]);
        let mut meant = self.operations("all");
        meant.retain(|(id, operation)| {
            let mut members = self.world.members.iter();
            let is_ours = split_item_key(&operation.key).unwrap().0 == collection;
            is_ours && members.any(|it| !it.is_held && it.overlay.contains_key(id))
        });
        let mut meant = meant.into_iter();
        let settled = meant.by_ref().map(|(id, it)| self.settle(id, &it, false));
        let settled: String = settled.collect();
        let closed = self.world.close(collection);
        settled + &show_change_of(closed)
    }

    fn catalog(&mut self, command: &catalog::Command) -> String {
        let outcome = self.world.catalog(command);
        outcome.map_or_else(|refusal| format!("{refusal}\n"), show_change_of)
    }

    fn overlay(&self, at: usize) -> String {
        let operations = self.world.members[at].overlay.iter();
        let lines = operations.map(|(id, operation)| {
            let stamp = show_stamp(&operation.stamp);
            format!("{} {stamp} {:?}\n", self.show_name(id), operation.ops)
        });
        match lines.collect::<String>() {
            none if none.is_empty() => "empty\n".to_owned(),
            lines => lines,
        }
    }

    fn rest(&mut self) -> String {
        let output = self.promote(&["all"], false);
        self.run_members(&["a", "b", "c"]);
        for member in &self.world.members {
            assert_eq!(member.view, self.world.newest, "members differ at rest");
            assert!(member.overlay.is_empty() && member.tentative.mutations().is_empty());
        }
        output
    }

    fn collection(&self, domain: &str) -> CollectionId {
        let account = AccountId(world::ACCOUNT.to_owned());
        let entry = catalog::domain(&self.world.newest, &account, domain).unwrap();
        entry.expect("there is such a domain").collection
    }

    fn key(&self, texts: &[&str]) -> Bytes {
        item_key(self.collection(texts[0]), texts[1].as_bytes())
    }

    fn name(&mut self, name: &str) -> RequestId {
        let count = self.names.len() as u64;
        RequestId {
            client: 1_u128.into(),
            seq: *self.names.entry(name.to_owned()).or_insert(count + 1),
            part: 0,
        }
    }

    fn show_name(&self, id: &RequestId) -> String {
        let mut names = self.names.iter();
        let (name, _) = names
            .find(|(_, seq)| **seq == id.seq)
            .expect("it was given");
        match id.part {
            0 => name.clone(),
            part => format!("{name}/{part}"),
        }
    }

    fn check(&self) {
        check_derived(&self.world.newest);
        for (at, member) in self.world.members.iter().enumerate() {
            check_derived(&member.view);
            check_shown(member, &self.world.shown(at));
        }
    }
}

/// The index that a member shows is that of the registers that it shows, and so is their number.
fn check_shown(member: &Member, shown: &MapView) {
    let alive = |key: &[u8]| {
        let collection = CollectionId(collection_of(key));
        counters::is_alive(shown, collection)
            .unwrap()
            .then_some(collection)
    };
    let mut expected = Vec::new();
    let mut items: BTreeMap<CollectionId, i64> = BTreeMap::new();
    for (key, _) in shown.iter() {
        let (Some((_, item)), Some(collection)) = (split_item_key(key), alive(key)) else {
            continue;
        };
        let register = world::register(shown, key);
        *items.entry(collection).or_default() += i64::from(!register.is_empty());
        let index =
            |(name, value): (&Bytes, &Bytes)| crate::index_key(collection, name, value, item);
        expected.extend(register.pairs().map(index));
    }
    expected.sort();
    let found = shown.iter().map(|(key, _)| key);
    let found = found.filter(|key| key[8] == b'x' && alive(key).is_some());
    assert!(found.eq(&expected), "the index shown is another");
    for (collection, items) in items {
        let counters = counters::counters(&member.view, collection)
            .unwrap()
            .unwrap();
        let counted = i64::try_from(counters.item_count).unwrap();
        assert_eq!(counted + member.tentative.items(collection), items);
    }
}

/// A request but for Select, by its verb and words.
fn parse(verb: &str, texts: &mut Vec<String>) -> Request {
    let domain = texts.remove(0);
    let expected = take_condition(texts);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let items = || texts.split(|text| *text == ",");
    match verb {
        "create" => Request::CreateDomain {
            domain,
            mode: texts.first().map(|mode| mode.parse().unwrap()),
            preference: None,
        },
        "drop" => Request::DeleteDomain { domain },
        "metadata" => Request::DomainMetadata { domain },
        "put" => Request::PutAttributes {
            domain,
            put: item_put(texts[0], &texts[1..]),
            expected,
        },
        "delete" => Request::DeleteAttributes {
            domain,
            delete: item_delete(texts[0], &texts[1..]),
            expected,
        },
        "batch-put" => Request::BatchPutAttributes {
            domain,
            puts: items()
                .map(|texts| item_put(texts[0], &texts[1..]))
                .collect(),
        },
        "batch-delete" => Request::BatchDeleteAttributes {
            domain,
            deletes: items()
                .map(|texts| item_delete(texts[0], &texts[1..]))
                .collect(),
        },
        "get" | "consistent-get" => Request::GetAttributes {
            domain,
            item: texts[0].to_owned(),
            names: texts[1..].iter().map(|name| (*name).to_owned()).collect(),
            consistent: verb == "consistent-get",
        },
        verb => panic!("no command {verb}"),
    }
}

/// `permits MODE LEVEL REQUEST`: at which level the request runs, or why not.
fn show_permits(texts: &[&str]) -> String {
    let mode = match texts[0] {
        "draining" => Mode::Draining,
        other => other.parse().unwrap(),
    };
    let consistency: ConsistencyOptions = texts[1].parse().unwrap();
    let mut rest: Vec<String> = texts[3..].iter().map(|&text| text.to_owned()).collect();
    let request = match texts[2] {
        "select" | "consistent-select" => Request::Select {
            expression: "select * from books".to_owned(),
            next_token: None,
            consistent: texts[2] == "consistent-select",
        },
        "domains" => Request::ListDomains {
            max_count: None,
            next_token: None,
        },
        verb => parse(verb, &mut rest),
    };
    match effective_level(Some(mode), None, &consistency, &request) {
        Ok((level, bound)) => {
            let shown = ConsistencyOptions {
                level,
                bound,
                ..ConsistencyOptions::default()
            };
            format!("{shown}\n")
        }
        Err(error) => format!("{}\n", show_outcome(&Err(error))),
    }
}

fn mark(is_tentative: bool) -> &'static str {
    if is_tentative { " tentative" } else { "" }
}

fn show_outcome(outcome: &Result<CostedReply, Error>) -> String {
    match outcome {
        Ok(answered) => match &answered.reply {
            Reply::Attributes(attributes) if attributes.is_empty() => "nothing".to_owned(),
            Reply::Items { items, .. } if items.is_empty() => "no items".to_owned(),
            reply => show_reply(reply).trim_end().to_owned(),
        },
        Err(error) => format!("{} {error}", error.code.status()),
    }
}

/// As in the docs: `@7`, or base and clock.
fn show_stamp(stamp: &Stamp) -> String {
    let EntryId { index, .. } = stamp.base;
    match stamp.is_strong() {
        true => format!("@{index}"),
        false => format!("@{index}+{}", stamp.clock),
    }
}

/// Marks are shown with what they clear: `-all@5 a: -all@5 [1]@5 -[2]@3`.
fn show_register(register: &Register) -> String {
    let cleared = |stamp: &Stamp| match *stamp == Stamp::ZERO {
        true => String::new(),
        false => format!("-all{} ", show_stamp(stamp)),
    };
    let mut shown = cleared(&register.cleared);
    for group in &register.groups {
        shown.push_str(&format!(
            "{}: {}",
            lossy(&group.name),
            cleared(&group.cleared)
        ));
        for member in &group.members {
            let sign = if member.live { "" } else { "-" };
            let (value, stamp) = (lossy(&member.value), show_stamp(&member.written));
            shown.push_str(&format!("{sign}[{value}]{stamp} "));
        }
    }
    match shown.trim_end() {
        "" => "nothing\n".to_owned(),
        shown => format!("{shown} version {}\n", register.version.index),
    }
}

#[track_caller]
fn check(name: &str) {
    goldenscript::run(&mut Script::new(), format!("testscripts/mixing/{name}")).unwrap();
}
