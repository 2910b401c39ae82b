//! Objects that are put in parts: one staged file, each part at its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use object_store::{
    Attributes, MultipartUpload, PutMode, PutPayload, PutResult, Result, UploadPart,
};

use super::Folder;
use super::failure::refused;
use super::key::Key;
use super::linux::Linux;
use super::put_result;
use super::store::Staged;

/// A put in parts. Dropping it without completing it leaves nothing.
#[derive(Debug)]
pub(super) struct Upload {
    folder: Folder,
    key: Key,
    /// Until it is completed or aborted.
    staged: Option<Arc<Staged<Linux>>>,
    /// Where the next part begins.
    offset: u64,
    parts: u64,
    written: Arc<AtomicU64>,
}

impl Upload {
    pub(super) async fn begin(folder: Folder, key: Key, attributes: Attributes) -> Result<Upload> {
        let of = key.clone();
        let staged = folder
            .run(move |store| store.stage(&of, &attributes))
            .await?;
        Ok(Upload {
            folder,
            key,
            staged: Some(Arc::new(staged)),
            offset: 0,
            parts: 0,
            written: Arc::new(AtomicU64::new(0)),
        })
    }

    fn ended(&self) -> object_store::Error {
        refused(self.key.path(), "the put in parts is over")
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let mut offset = self.offset;
        self.offset += payload.content_length() as u64;
        self.parts += 1;
        let Some(staged) = self.staged.clone() else {
            return Box::pin(std::future::ready(Err(self.ended())));
        };
        let (folder, key) = (self.folder.clone(), self.key.clone());
        let written = Arc::clone(&self.written);
        let write = move || {
            for bytes in &payload {
                staged.write(&key, offset, bytes)?;
                offset += bytes.len() as u64;
            }
            drop(staged);
            written.fetch_add(1, Ordering::Release);
            Ok(())
        };
        Box::pin(async move { folder.run(move |_| write()).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let staged = self.staged.take().ok_or_else(|| self.ended())?;
        let missing = self.parts - self.written.load(Ordering::Acquire);
        let staged = match (missing, Arc::into_inner(staged)) {
            (0, Some(staged)) => staged,
            _ => {
                let text = format!("{missing} of its {} parts are not written", self.parts);
                return Err(refused(self.key.path(), text));
            }
        };
        let key = self.key.clone();
        let publish = move |_: &_| staged.publish(&key, &PutMode::Overwrite);
        self.folder.run(publish).await.map(put_result)
    }

    async fn abort(&mut self) -> Result<()> {
        let staged = self.staged.take().ok_or_else(|| self.ended())?;
        self.folder
            .run(move |_| {
                drop(staged);
                Ok(())
            })
            .await
    }
}
