//! Objects in memory: `object_store`'s own, whose calls fail in bad weather.
//!
//! Multipart uploads fail as a whole or not at all: their beginning may be refused.

use std::fmt;

use async_trait::async_trait;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::weather::{Dice, Weather};

/// Objects in memory.
#[derive(Debug)]
pub struct ModelObjects {
    weather: Weather,
    dice: std::sync::Arc<Dice>,
    objects: InMemory,
}

impl ModelObjects {
    pub(super) fn new(weather: Weather) -> Self {
        ModelObjects {
            weather,
            dice: std::sync::Arc::new(Dice::new(weather, 3)),
            objects: InMemory::new(),
        }
    }

    fn begin(&self, call: &str) -> Result<()> {
        self.dice.begin(&self.weather, call).map_err(failure)
    }

    fn end<T>(&self, call: &str, answer: T) -> Result<T> {
        let answer = self.dice.end(&self.weather, call, Ok(answer));
        answer.map_err(failure)
    }
}

fn failure(error: crate::Error) -> Error {
    Error::Generic {
        store: "model",
        source: Box::new(error),
    }
}

impl fmt::Display for ModelObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects in memory")
    }
}

#[async_trait]
impl ObjectStore for ModelObjects {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.begin("put")?;
        let put = self.objects.put_opts(location, payload, options).await?;
        self.end("put", put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.begin("put in parts")?;
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.begin("get")?;
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (dice, weather) = (self.dice.clone(), self.weather);
        let admitted = locations.map(move |location| {
            let location = location?;
            dice.begin(&weather, "delete").map_err(failure)?;
            Ok(location)
        });
        let (dice, weather) = (self.dice.clone(), self.weather);
        let deleted = self.objects.delete_stream(admitted.boxed());
        let answered = deleted.map(move |location| {
            let answer = dice.end(&weather, "delete", Ok(location?));
            answer.map_err(failure)
        });
        answered.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.begin("list") {
            Ok(()) => self.objects.list(prefix),
            Err(error) => futures_util::stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.begin("list")?;
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.begin("copy")?;
        self.objects.copy_opts(from, to, options).await?;
        self.end("copy", ())
    }
}
