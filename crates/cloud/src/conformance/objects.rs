//! What an object store must keep.

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutResult, UpdateVersion,
};

use super::{ConformanceError, RACERS, SystemUnderTest, Verdict, ensure, same};
use crate::{ErrorKind, object_error_kind};

type Told = Result<(), ConformanceError>;
type Service<'a> = SystemUnderTest<'a, dyn ObjectStore>;

/// Judges an object store, and tells each verdict as it is reached.
pub async fn objects(subject: &Service<'_>, verdict: &mut (dyn FnMut(Verdict) + Send)) {
    let mut tell = |promise, outcome| verdict(Verdict { promise, outcome });
    tell("what is put is read", read(subject).await);
    tell("what is not there is not found", not_found(subject).await);
    tell("a put replaces the whole object", replaced(subject).await);
    tell("ranges are read", ranges(subject).await);
    tell("an object is created once", created_once(subject).await);
    tell("of 64 creations one wins", one_creation(subject).await);
    tell(
        "an update needs the version it read",
        updated(subject).await,
    );
    tell("of 64 updates one wins", one_update(subject).await);
    tell(
        "what was not modified is not read again",
        not_modified(subject).await,
    );
    tell("a deletion takes it away", deleted(subject).await);
    tell("objects are listed by prefix", listed(subject).await);
    tell("a list sees a deletion", listed_without(subject).await);
    tell("objects are listed by level", by_level(subject).await);
    tell("an object is copied", copied(subject).await);
    tell("an object is put in parts", in_parts(subject).await);
}

fn path(subject: &Service<'_>, name: &str) -> Path {
    Path::from(format!("{}/{name}", subject.prefix))
}

async fn put(
    subject: &Service<'_>,
    at: &Path,
    body: &'static str,
    mode: PutMode,
) -> object_store::Result<PutResult> {
    let options = PutOptions {
        mode,
        ..PutOptions::default()
    };
    subject.service.put_opts(at, body.into(), options).await
}

async fn body(subject: &Service<'_>, at: &Path) -> Result<Bytes, ConformanceError> {
    Ok(subject.service.get(at).await?.bytes().await?)
}

async fn has(subject: &Service<'_>, at: &Path, expected: &'static str) -> Told {
    same(
        &body(subject, at).await?,
        &Bytes::from_static(expected.as_bytes()),
    )
}

fn fails<T: std::fmt::Debug>(outcome: object_store::Result<T>, kind: ErrorKind) -> Told {
    match outcome {
        Err(error) if object_error_kind(&error, true) == kind => Ok(()),
        other => Err(ConformanceError(format!(
            "expected {kind:?}, found {other:?}"
        ))),
    }
}

fn update(version: PutResult) -> PutMode {
    PutMode::Update(UpdateVersion::from(version))
}

async fn delete(subject: &Service<'_>, at: &Path) -> Told {
    Ok(subject.service.delete(at).await?)
}

async fn read(subject: &Service<'_>) -> Told {
    let at = path(subject, "read");
    put(subject, &at, "hello", PutMode::Overwrite).await?;
    has(subject, &at, "hello").await?;
    same(&subject.service.head(&at).await?.size, &5)?;
    delete(subject, &at).await
}

async fn not_found(subject: &Service<'_>) -> Told {
    let at = path(subject, "nowhere");
    fails(subject.service.get(&at).await, ErrorKind::NotFound)?;
    fails(subject.service.head(&at).await, ErrorKind::NotFound)
}

async fn replaced(subject: &Service<'_>) -> Told {
    let at = path(subject, "replaced");
    put(subject, &at, "a long body", PutMode::Overwrite).await?;
    put(subject, &at, "short", PutMode::Overwrite).await?;
    has(subject, &at, "short").await?;
    delete(subject, &at).await
}

async fn ranges(subject: &Service<'_>) -> Told {
    let at = path(subject, "ranges");
    put(subject, &at, "0123456789", PutMode::Overwrite).await?;
    let found = subject.service.get_range(&at, 2..5).await?;
    same(&found, &Bytes::from_static(b"234"))?;
    let found = subject.service.get_ranges(&at, &[0..1, 8..10]).await?;
    same(
        &found,
        &vec![Bytes::from_static(b"0"), Bytes::from_static(b"89")],
    )?;
    delete(subject, &at).await
}

async fn created_once(subject: &Service<'_>) -> Told {
    let at = path(subject, "once");
    put(subject, &at, "first", PutMode::Create).await?;
    fails(
        put(subject, &at, "second", PutMode::Create).await,
        ErrorKind::Precondition,
    )?;
    has(subject, &at, "first").await?;
    delete(subject, &at).await
}

/// One of the racers won, and all others know that they lost.
async fn one_won(
    subject: &Service<'_>,
    at: &Path,
    puts: Vec<object_store::Result<PutResult>>,
) -> Told {
    let (won, lost): (Vec<_>, Vec<_>) = puts.into_iter().partition(Result::is_ok);
    same(&won.len(), &1)?;
    for put in lost {
        fails(put, ErrorKind::Precondition)?;
    }
    has(subject, at, "mine").await?;
    delete(subject, at).await
}

async fn one_creation(subject: &Service<'_>) -> Told {
    let at = path(subject, "one-creation");
    let puts = (0..RACERS).map(|_| put(subject, &at, "mine", PutMode::Create));
    one_won(subject, &at, futures_util::future::join_all(puts).await).await
}

async fn updated(subject: &Service<'_>) -> Told {
    let at = path(subject, "updated");
    let first = put(subject, &at, "first", PutMode::Overwrite).await?;
    let second = put(subject, &at, "second", update(first.clone())).await?;
    let outcome = put(subject, &at, "third", update(first)).await;
    fails(outcome, ErrorKind::Precondition)?;
    has(subject, &at, "second").await?;
    delete(subject, &at).await?;
    let outcome = put(subject, &at, "fourth", update(second)).await;
    ensure(outcome.is_err(), || "an update created it".to_owned())
}

async fn one_update(subject: &Service<'_>) -> Told {
    let at = path(subject, "one-update");
    let first = put(subject, &at, "first", PutMode::Overwrite).await?;
    let puts = (0..RACERS).map(|_| put(subject, &at, "mine", update(first.clone())));
    one_won(subject, &at, futures_util::future::join_all(puts).await).await
}

async fn not_modified(subject: &Service<'_>) -> Told {
    let at = path(subject, "not-modified");
    let put_result = put(subject, &at, "body", PutMode::Overwrite).await?;
    let options = GetOptions {
        if_none_match: put_result.e_tag,
        ..GetOptions::default()
    };
    ensure(options.if_none_match.is_some(), || {
        "there is no ETag".to_owned()
    })?;
    match subject.service.get_opts(&at, options).await {
        Err(object_store::Error::NotModified { .. }) => {}
        other => {
            return Err(ConformanceError(format!(
                "expected NotModified, found {other:?}"
            )));
        }
    }
    delete(subject, &at).await
}

async fn deleted(subject: &Service<'_>) -> Told {
    let at = path(subject, "deleted");
    put(subject, &at, "body", PutMode::Overwrite).await?;
    delete(subject, &at).await?;
    fails(subject.service.get(&at).await, ErrorKind::NotFound)
}

async fn listed(subject: &Service<'_>) -> Told {
    let names = ["list/a", "list/b/c", "list/b/d"];
    for name in names {
        put(subject, &path(subject, name), name, PutMode::Overwrite).await?;
    }
    put(
        subject,
        &path(subject, "other"),
        "other",
        PutMode::Overwrite,
    )
    .await?;
    let prefix = path(subject, "list");
    let found: Vec<_> = subject.service.list(Some(&prefix)).try_collect().await?;
    let mut found: Vec<Path> = found.into_iter().map(|meta| meta.location).collect();
    found.sort_unstable();
    same(&found, &names.map(|name| path(subject, name)).to_vec())?;
    for name in names.into_iter().chain(["other"]) {
        delete(subject, &path(subject, name)).await?;
    }
    Ok(())
}

async fn listed_without(subject: &Service<'_>) -> Told {
    let prefix = path(subject, "list-deleted");
    let names = ["list-deleted/a", "list-deleted/b"];
    for name in names {
        put(subject, &path(subject, name), name, PutMode::Overwrite).await?;
    }
    for left in [1, 0] {
        // Listed before, so that a list that is kept somewhere is an old one.
        let before: Vec<_> = subject.service.list(Some(&prefix)).try_collect().await?;
        same(&before.len(), &(left + 1))?;
        delete(subject, &path(subject, names[left])).await?;
        let found: Vec<_> = subject.service.list(Some(&prefix)).try_collect().await?;
        let found: Vec<Path> = found.into_iter().map(|meta| meta.location).collect();
        let expected = names[..left].iter().map(|name| path(subject, name));
        same(&found, &expected.collect())?;
    }
    Ok(())
}

async fn by_level(subject: &Service<'_>) -> Told {
    let names = ["level/a", "level/b/c", "level/b/d"];
    for name in names {
        put(subject, &path(subject, name), name, PutMode::Overwrite).await?;
    }
    let prefix = path(subject, "level");
    let found = subject.service.list_with_delimiter(Some(&prefix)).await?;
    let objects: Vec<Path> = found
        .objects
        .into_iter()
        .map(|meta| meta.location)
        .collect();
    same(&objects, &vec![path(subject, "level/a")])?;
    same(&found.common_prefixes, &vec![path(subject, "level/b")])?;
    for name in names {
        delete(subject, &path(subject, name)).await?;
    }
    Ok(())
}

async fn copied(subject: &Service<'_>) -> Told {
    let (from, to) = (path(subject, "from"), path(subject, "to"));
    put(subject, &from, "body", PutMode::Overwrite).await?;
    subject.service.copy(&from, &to).await?;
    has(subject, &to, "body").await?;
    has(subject, &from, "body").await?;
    delete(subject, &from).await?;
    delete(subject, &to).await
}

async fn in_parts(subject: &Service<'_>) -> Told {
    /// The least that S3 takes as a part that is not the last.
    const PART: usize = 5 << 20;
    let at = path(subject, "parts");
    let mut upload = subject.service.put_multipart(&at).await?;
    upload.put_part(vec![b'x'; PART].into()).await?;
    upload.put_part("end".into()).await?;
    let is_there = subject.service.head(&at).await.is_ok();
    ensure(!is_there, || "it is there before it is complete".to_owned())?;
    upload.complete().await?;
    let found = body(subject, &at).await?;
    same(&found.len(), &(PART + 3))?;
    ensure(found.ends_with(b"xend"), || {
        "its parts are not in order".to_owned()
    })?;
    delete(subject, &at).await
}
