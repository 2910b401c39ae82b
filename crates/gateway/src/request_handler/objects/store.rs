//! Bytes on their way into the node: as they come, compared with what is told of them.

use fader_node::Stored;
use fader_services::Kind;
use fader_services::catalog::Name;
use fader_services::policy::Principal;
use fader_services::s3::command::HeadBucket;
use fader_services::s3::rows::Algorithm;
use fader_services::s3::{Action, Command, Error};
use hyper::header::EXPECT;

use super::{Asked, Body, of_trouble};
use crate::s3::digest::{Digest, Sums};
use crate::s3::fault::Fault;

/// Bytes that are stored, and what they come to. Nothing names them yet.
pub(super) struct Kept {
    /// Where they are.
    pub(super) stored: Stored,
    /// Their hashes.
    pub(super) sums: Sums,
}

impl Asked<'_> {
    /// Stores a body. `upload` is that of a part; `default` is computed where no checksum is told.
    ///
    /// # Errors
    /// The body is not what was told of it: nothing of it stays.
    pub(super) async fn keep(
        &self,
        upload: Option<u128>,
        mut body: Body,
        default: Algorithm,
    ) -> Result<Kept, Fault> {
        let name = Name::new(Kind::Bucket, &self.by.account, &self.place.bucket);
        let node = &self.handler.node;
        let begun = node.begin_body(name, upload, Some(body.length)).await;
        let mut writer = begun.map_err(of_trouble)?;
        let mut digest = Digest::sized(body.told, default, body.length, &self.handler.md5s);
        while let Some(bytes) = body.source.next().await? {
            digest.update(&bytes).await?;
            writer.push(bytes).await.map_err(of_trouble)?;
        }
        let sums = digest.finish(&body.source.trailer()?).await?;
        let stored = writer.finish().await.map_err(of_trouble)?;
        Ok(Kept { stored, sums })
    }

    /// Refuses a body before it comes, where the caller may not put it. It does so for one that is
    /// large, that its client asks about, or that is unsigned.
    pub(super) async fn check_bucket(&self, length: u64) -> Result<(), Fault> {
        let is_asked = self.parts.headers.contains_key(EXPECT)
            || self.by.caller.principal == Principal::Anonymous;
        if length <= self.limits().inline_bytes && !is_asked {
            return Ok(());
        }
        let command = HeadBucket {
            bucket: self.bucket(),
            action: Action::PutObject,
            key: Some(self.key()),
        };
        self.call(Command::HeadBucket(command)).await?;
        Ok(())
    }

    /// What came of a commit: what was stored for one that is refused goes soon.
    pub(super) fn committed<T>(
        &self,
        outcome: Result<T, Error>,
        stored: &Stored,
    ) -> Result<T, Fault> {
        outcome.map_err(|error| {
            if error.code.status() < 500 {
                self.handler.node.give_up(stored);
            }
            error.into()
        })
    }
}
