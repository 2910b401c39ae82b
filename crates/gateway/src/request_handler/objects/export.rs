//! Carries out exports of domains that are due. It reads a domain on one state of its chain, and
//! writes it to a bucket, as the account that asked.
//!
//! ```text
//! Claim ─▶ _started ─▶ data/dataFileATTEMPTNUMBER.json … ─▶ manifest-file.json (if there is none)
//!       ─▶ manifest-summary.json ─▶ files of other attempts go ─▶ End
//! ```
//!
//! Invariants:
//! - an attempt writes under names of its own. The one whose manifest-file.json is there first
//!   is the export: each later one finds it, and goes on from there.
//! - DX-2 all items of a manifest are of one snapshot, which has what was acknowledged before the
//!   export was asked for.
//! - memory is a page of items and a manifest: a line for each file of 64 MiB.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use fader_node::BodyWriter;
use fader_services::Kind;
use fader_services::catalog::{AccountId, Name};
use fader_services::exports::{
    Attempt, Command as Order, End, Export, Finding, Hold, Reply as Told, id_text,
};
use fader_services::request::own;
use fader_services::s3::command::{DeleteObjects, Deletion, Extent, GetObject, List, PutObject};
use fader_services::s3::conditions::{ReadConditions, WriteConditions};
use fader_services::s3::reply::Entry;
use fader_services::s3::rows::{Algorithm, Metadata};
use fader_services::s3::{Action, Command, Reply, S3};
use fader_services::service::Trouble;
use fader_services::simpledb::{WholeItem, item_count, items};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::caller::By;
use super::reader::Reader;
use super::{RequestHandler, odd, of_trouble};
use crate::s3::digest::{Digest, Told as Announced};
use crate::s3::fault::Fault;

/// How often a process looks for exports that are due.
const LOOK: Duration = Duration::from_secs(1);
/// The lease of an attempt, and how often it is made longer.
const LEASE: Duration = Duration::from_secs(10);
const BEAT: Duration = Duration::from_secs(2);
/// Attempts of an export: one that fails so often will not be done.
const ATTEMPTS_MAX: u32 = 1000;
/// Bytes of items that are read at once.
const PAGE_BYTES: usize = 1 << 20;
/// Bytes of items of a file, before the next one begins.
const FILE_BYTES: u64 = 64 << 20;
/// Bytes of a manifest: lines of 64,000 files.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
const MANIFEST: &str = "manifest-file.json";
const SUMMARY: &str = "manifest-summary.json";

/// Why an attempt ends without an export.
enum Setback {
    /// The export fails, for this reason.
    Final(String, String),
    /// Another attempt may do it.
    Later(String),
}

impl From<Fault> for Setback {
    fn from(fault: Fault) -> Self {
        match fault.reason.is_some() || 500 <= fault.status {
            true => Setback::Later(fault.message),
            false => Setback::Final(format!("S3{}", fault.code), fault.message),
        }
    }
}

/// A file of an export.
struct File {
    key: String,
    items: u64,
    etag: String,
}

impl File {
    /// Its line in the manifest.
    fn line(&self) -> String {
        let sum: Vec<u8> = (0..self.etag.len() / 2)
            .filter_map(|at| u8::from_str_radix(self.etag.get(2 * at..2 * at + 2)?, 16).ok())
            .collect();
        let line = json!({
            "itemCount": self.items,
            "md5Checksum": BASE64.encode(sum),
            "etag": self.etag,
            "dataFileS3Key": self.key,
        });
        format!("{line}\n")
    }

    fn read(line: &str) -> Option<File> {
        let line: Value = serde_json::from_str(line).ok()?;
        Some(File {
            key: line["dataFileS3Key"].as_str()?.to_owned(),
            items: line["itemCount"].as_u64()?,
            etag: line["etag"].as_str()?.to_owned(),
        })
    }
}

/// An object that is being written.
struct Writing {
    key: String,
    writer: BodyWriter,
    digest: Digest,
    items: u64,
}

/// An attempt.
struct Job<'a> {
    handler: &'a RequestHandler,
    account: AccountId,
    by: By,
    export: Export,
}

impl RequestHandler {
    /// Carries out exports that are due, of domains that this process has, until `stop` turns true.
    pub(crate) async fn carry_out_exports(&self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = self.export_begins.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = self.carry_out_due() => {}
            }
        }
    }

    /// One after the other, until none is due.
    async fn carry_out_due(&self) {
        loop {
            let due = Order::Due(self.node.chains_here());
            let told = self.ask_exports(&AccountId(String::new()), due).await;
            let Ok(Told::Due(Some((account, export)))) = told else {
                return;
            };
            let attempt = Attempt {
                account: account.clone(),
                id: export.id,
                number: export.attempt + 1,
            };
            let claim = Order::Claim(hold(&attempt));
            let Ok(Told::Export(export)) = self.ask_exports(&account, claim).await else {
                // Another process has it, or it is not known: look again later.
                return;
            };
            let mut by = By::account(&account);
            by.caller.expected_owner = export.place.owner.clone();
            let job = Job {
                handler: self,
                account,
                by,
                export: *export,
            };
            if !job.carry_out(attempt).await {
                return;
            }
        }
    }
}

fn hold(attempt: &Attempt) -> Hold {
    Hold {
        attempt: attempt.clone(),
        lease_ms: u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX),
    }
}

impl Job<'_> {
    /// Whether the export has ended.
    async fn carry_out(&self, attempt: Attempt) -> bool {
        let id = id_text(self.export.id);
        let done = tokio::select! {
            done = self.run() => done,
            () = self.beat(&attempt) => return false,
        };
        let finding = match done {
            Ok(finding) => finding,
            Err(Setback::Final(code, message)) => Finding::Failed((code, message)),
            Err(Setback::Later(why)) if ATTEMPTS_MAX <= self.export.attempt => {
                Finding::Failed(("ServiceUnavailable".to_owned(), why))
            }
            Err(Setback::Later(why)) => {
                tracing::warn!(export = id, why, "an export waits for its next attempt");
                return false;
            }
        };
        tracing::info!(export = id, ?finding, "an export ended");
        let end = Order::End(End { attempt, finding });
        self.handler.ask_exports(&self.account, end).await.is_ok()
    }

    /// Keeps the lease. Returns when it is lost.
    async fn beat(&self, attempt: &Attempt) {
        loop {
            tokio::time::sleep(BEAT).await;
            let beat = Order::Beat(hold(attempt));
            if let Err(error) = self.handler.ask_exports(&self.account, beat).await
                && error.reason.is_none()
            {
                tracing::info!(%error, "an attempt at an export is given up");
                return;
            }
        }
    }

    async fn run(&self) -> Result<Finding, Setback> {
        let files = match self.read_manifest().await? {
            Some(files) => files,
            None => {
                self.put("_started", Bytes::new(), "application/octet-stream", false)
                    .await?;
                let files = self.write_files().await?;
                let lines: String = files.iter().map(File::line).collect();
                let is_first = self.put(MANIFEST, lines.into(), JSON, true).await?;
                match is_first {
                    true => files,
                    false => self.read_manifest().await?.unwrap_or(files),
                }
            }
        };
        let count = files.iter().map(|file| file.items).sum();
        let summary = self.summary(count).to_string();
        self.put(SUMMARY, summary.into(), JSON, false).await?;
        if 1 < self.export.attempt {
            self.remove_others(&files).await?;
        }
        Ok(Finding::Whole((count, self.export.key_of(SUMMARY))))
    }

    fn summary(&self, count: u64) -> Value {
        let export = &self.export;
        json!({
            "version": "2025-09-26",
            "exportArn": fader_services::exports::arn(&self.account, export),
            "domainName": export.domain,
            "requestedAt": timestamp(export.requested_ms),
            "exportDataCutoffTime": timestamp(export.requested_ms),
            "s3Bucket": export.place.bucket,
            "s3KeyPrefix": export.place.prefix,
            "manifestFilesS3Key": export.key_of(MANIFEST),
            "itemsCount": count,
            "outputFormat": "JSON",
        })
    }

    /// Writes all items to files.
    async fn write_files(&self) -> Result<Vec<File>, Setback> {
        let Export {
            chain, collection, ..
        } = self.export;
        let later = |trouble| Setback::from(of_trouble(trouble));
        let view = self.handler.node.fixed(chain).await.map_err(later)?;
        let unreadable = |error| later(Trouble::Unreadable(error));
        let expected = item_count(&*view, collection).map_err(unreadable)?;
        let (mut files, mut after) = (Vec::new(), None);
        let mut writing = self.begin(0).await?;
        loop {
            let (of_page, from) = (view.clone(), after.take());
            let page = tokio::task::spawn_blocking(move || {
                items(&*of_page, collection, from.as_deref(), PAGE_BYTES)
            });
            let page = page
                .await
                .map_err(|error| Setback::Later(error.to_string()))?;
            let page = page.map_err(unreadable)?.ok_or_else(|| {
                Setback::Final("NoSuchDomain".to_owned(), "The domain is gone.".to_owned())
            })?;
            let Some(last) = page.last().map(|item| item.name.clone()) else {
                break;
            };
            if FILE_BYTES <= writing.digest.size() {
                let next = self.begin(files.len() + 1).await?;
                files.push(self.end(std::mem::replace(&mut writing, next)).await?);
            }
            let text = shown(&page, writing.items == 0);
            writing.items += page.len() as u64;
            write(&mut writing, text.into()).await?;
            after = Some(last);
        }
        files.push(self.end(writing).await?);
        let found: u64 = files.iter().map(|file| file.items).sum();
        match found == expected {
            true => Ok(files),
            false => Err(Setback::Later(format!(
                "{found} items were read of a domain that counts {expected}"
            ))),
        }
    }

    /// Begins a file.
    async fn begin(&self, number: usize) -> Result<Writing, Setback> {
        let name = format!("data/dataFile{:08x}{number:08x}.json", self.export.attempt);
        let mut writing = self.begin_object(&name, None).await?;
        write(&mut writing, Bytes::from_static(b"[")).await?;
        Ok(writing)
    }

    async fn end(&self, mut writing: Writing) -> Result<File, Setback> {
        write(&mut writing, Bytes::from_static(b"\n]\n")).await?;
        let (key, items) = (writing.key.clone(), writing.items);
        let (etag, _) = self.commit(writing, JSON, false).await?;
        Ok(File { key, items, etag })
    }

    async fn begin_object(&self, name: &str, size: Option<u64>) -> Result<Writing, Setback> {
        let bucket = Name::new(Kind::Bucket, &self.account, &self.export.place.bucket);
        let begun = self.handler.node.begin_body(bucket, None, size).await;
        Ok(Writing {
            key: self.export.key_of(name),
            writer: begun.map_err(of_trouble)?,
            digest: Digest::new(Announced::default(), Algorithm::Crc64Nvme),
            items: 0,
        })
    }

    /// Commits an object: its ETag, and whether it was; not if one was there and `is_new` is asked.
    async fn commit(
        &self,
        writing: Writing,
        kind: &str,
        is_new: bool,
    ) -> Result<(String, bool), Setback> {
        let sums = writing.digest.finish(&Vec::new()).await?;
        let stored = writing.writer.finish().await.map_err(of_trouble)?;
        let command = PutObject {
            bucket: self.export.place.bucket.clone(),
            key: writing.key,
            attempt: stored.owner.attempt,
            content: stored.content.clone(),
            etag: sums.etag.clone(),
            checksum: Some(sums.checksum),
            metadata: Metadata {
                headers: vec![("content-type".to_owned(), kind.to_owned())],
                ..Metadata::default()
            },
            acl: None,
            conditions: WriteConditions {
                if_match: None,
                if_none_match: is_new,
            },
        };
        match self.ask(Command::PutObject(Box::new(command))).await {
            Ok(_) => Ok((sums.etag, true)),
            Err(fault) => {
                if fault.status < 500 {
                    self.handler.node.give_up(&stored);
                }
                match fault.status == 412 {
                    true => Ok((sums.etag, false)),
                    false => Err(fault.into()),
                }
            }
        }
    }

    /// Puts a whole object: whether it was put.
    async fn put(
        &self,
        name: &str,
        bytes: Bytes,
        kind: &str,
        is_new: bool,
    ) -> Result<bool, Setback> {
        let mut writing = self.begin_object(name, Some(bytes.len() as u64)).await?;
        write(&mut writing, bytes).await?;
        Ok(self.commit(writing, kind, is_new).await?.1)
    }

    async fn ask(&self, command: Command) -> Result<Reply, Fault> {
        let (outcome, _) = self.handler.node.call(self.by.call(command)).await;
        Ok(own::<S3>(outcome)?)
    }

    /// The files that the manifest names, if one is there.
    async fn read_manifest(&self) -> Result<Option<Vec<File>>, Setback> {
        let asked = GetObject {
            bucket: self.export.place.bucket.clone(),
            key: self.export.key_of(MANIFEST),
            version: None,
            conditions: ReadConditions::default(),
            extent: Extent::From(0),
            action: Action::GetObject,
        };
        let mut found = match self.ask(Command::GetObject(asked.clone())).await {
            Ok(Reply::Object(found)) => found,
            Ok(other) => return Err(odd(&other).into()),
            Err(fault) if fault.code == "NoSuchKey" => return Ok(None),
            // One who may write and not read begins anew each time.
            Err(fault) if fault.status == 403 => return Ok(None),
            Err(fault) => return Err(fault.into()),
        };
        let size = found.object().map_or(0, |object| object.size);
        if MANIFEST_BYTES_MAX < size {
            return Err(not_ours());
        }
        let (node, by) = (&self.handler.node, &self.by);
        let mut reader = Reader::new(node, by, &asked, &mut found, 0, size);
        let mut text = Vec::new();
        while let Some(bytes) = reader.next().await.map_err(Fault::from)? {
            text.extend_from_slice(&bytes);
        }
        let text = String::from_utf8(text).map_err(|_| not_ours())?;
        let files: Option<Vec<File>> = text.lines().map(File::read).collect();
        files.map(Some).ok_or_else(not_ours)
    }

    /// Removes the files of attempts that came to nothing.
    async fn remove_others(&self, files: &[File]) -> Result<(), Setback> {
        let mut list = List {
            bucket: self.export.place.bucket.clone(),
            prefix: self.export.key_of("data/"),
            ..List::default()
        };
        loop {
            let page = match self.ask(Command::ListObjects(list.clone())).await {
                Ok(Reply::Page(page)) => page,
                Ok(other) => return Err(odd(&other).into()),
                // They stay where the account may not look.
                Err(fault) if fault.status == 403 => return Ok(()),
                Err(fault) => return Err(fault.into()),
            };
            let names = page.entries.iter().map(Entry::name);
            let others = names.filter(|name| files.iter().all(|file| file.key != **name));
            let objects: Vec<_> = others
                .map(|key| Deletion {
                    key: key.to_owned(),
                    ..Deletion::default()
                })
                .collect();
            if !objects.is_empty() {
                let bucket = list.bucket.clone();
                let deletion = DeleteObjects { bucket, objects };
                self.ask(Command::DeleteObjects(deletion)).await?;
            }
            match page.next {
                Some((after, _)) => list.after = Some(after),
                None => return Ok(()),
            }
        }
    }
}

const JSON: &str = "application/json";

fn not_ours() -> Setback {
    Setback::Final(
        "ManifestAltered".to_owned(),
        format!("The object {MANIFEST} of the export is not the one that was written."),
    )
}

async fn write(writing: &mut Writing, bytes: Bytes) -> Result<(), Setback> {
    writing.digest.update(&bytes).await?;
    Ok(writing.writer.push(bytes).await.map_err(of_trouble)?)
}

/// A time in the form of RFC 3339.
fn timestamp(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |it| it.to_string())
}

/// Items as JSON, each on a line, with commas between them.
fn shown(page: &[WholeItem], is_first: bool) -> String {
    let mut text = String::new();
    for (at, item) in page.iter().enumerate() {
        if 0 < at || !is_first {
            text.push(',');
        }
        text.push('\n');
        text.push_str(&item_json(item).to_string());
    }
    text
}

fn item_json(item: &WholeItem) -> Value {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let attributes = item.pairs.chunk_by(|one, other| one.0 == other.0);
    let attributes = attributes.map(|pairs| {
        let values: Vec<_> = pairs.iter().map(|(_, value)| text(value)).collect();
        json!({ "name": pairs.first().map(|(name, _)| text(name)), "values": values })
    });
    json!({ "itemName": text(&item.name), "attributes": attributes.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_items_are_one_list() {
        let item = |name: &'static str, pairs: &[(&'static str, &'static str)]| WholeItem {
            name: Bytes::from_static(name.as_bytes()),
            pairs: pairs
                .iter()
                .map(|(name, value)| (Bytes::from(*name), Bytes::from(*value)))
                .collect(),
        };
        let pages = [
            vec![item("a", &[("c", "1"), ("c", "2"), ("d", "\"\n")])],
            vec![item("b", &[("c", "é")]), item("ü", &[("c", "")])],
        ];
        let text = format!(
            "[{}{}\n]\n",
            shown(&pages[0], true),
            shown(&pages[1], false)
        );
        let read: Value = serde_json::from_str(&text).expect("it is JSON");
        let expected = json!([
            { "itemName": "a", "attributes": [
                { "name": "c", "values": ["1", "2"] }, { "name": "d", "values": ["\"\n"] } ] },
            { "itemName": "b", "attributes": [{ "name": "c", "values": ["é"] }] },
            { "itemName": "ü", "attributes": [{ "name": "c", "values": [""] }] },
        ]);
        assert_eq!(read, expected);
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn a_line_of_a_manifest_is_read_as_it_was_written() {
        let file = File {
            key: "p/AWSSimpleDB/i/d/data/dataFile1.json".to_owned(),
            items: 3,
            etag: "d41d8cd98f00b204e9800998ecf8427e".to_owned(),
        };
        let line = file.line();
        assert!(line.contains(r#""md5Checksum":"1B2M2Y8AsgTpgAmY7PhCfg==""#));
        let read = File::read(line.trim_end()).expect("it is a line");
        assert_eq!((read.key, read.items, read.etag), (file.key, 3, file.etag));
        assert!(File::read("{}").is_none());
    }
}
