//! The store on a real file system: against the in-memory store as a model, and what a folder has
//! that a bucket has not.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path as FilePath;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutOptions, PutResult, UpdateVersion,
};
use proptest::prelude::*;

use super::super::Folder;

fn block<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

fn folder() -> (tempfile::TempDir, Folder) {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    (at, folder)
}

async fn put_if(
    store: &dyn ObjectStore,
    at: &str,
    body: &str,
    mode: PutMode,
) -> object_store::Result<PutResult> {
    let body = body.to_owned();
    store
        .put_opts(&Path::from(at), body.into(), PutOptions::from(mode))
        .await
}

fn update(version: &PutResult) -> PutMode {
    PutMode::Update(UpdateVersion::from(version.clone()))
}

async fn body(store: &dyn ObjectStore, at: &str) -> object_store::Result<String> {
    let bytes = store.get(&Path::from(at)).await?.bytes().await?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

/// What is in the folder of staged bodies of all stores.
fn staged(at: &FilePath) -> Vec<String> {
    let Ok(stores) = fs::read_dir(at.join(".fader/staged")) else {
        return Vec::new();
    };
    let files = stores.flat_map(|store| fs::read_dir(store.unwrap().path()).unwrap());
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Calls of the property, on few keys so that they meet. No key is below another.
#[derive(Clone, Debug)]
enum Call {
    Put(u8, String),
    Create(u8, String),
    /// With the version of that call before, counted back.
    Update(u8, String, u8),
    Delete(u8),
    Get(u8, Condition, Option<GetRange>),
    Ranges(u8, Vec<(u64, u64)>),
    Copy(u8, u8, bool),
    Rename(u8, u8),
    Parts(u8, Vec<String>),
    List(u8),
    ListFrom(u8, u8),
    Level(u8),
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    None,
    Match(u8),
    NoneMatch(u8),
    Any,
    ModifiedLongAgo,
    UnmodifiedLongAgo,
}

const KEYS: [&str; 7] = ["a-b", "a/b", "a/c/d", "a/c/é", "a0", "b/a", "b/a.b"];
const PREFIXES: [&str; 6] = ["", "a", "a/c", "b", "a/b", "nothing"];

fn calls() -> impl Strategy<Value = Call> {
    let key = 0..KEYS.len() as u8;
    let text = "[a-z]{0,12}";
    let condition = prop_oneof![
        3 => Just(Condition::None),
        1 => (0..4_u8).prop_map(Condition::Match),
        1 => (0..4_u8).prop_map(Condition::NoneMatch),
        1 => Just(Condition::Any),
        1 => Just(Condition::ModifiedLongAgo),
        1 => Just(Condition::UnmodifiedLongAgo),
    ];
    let range = prop_oneof![
        Just(None),
        (0..14_u64, 1..14_u64).prop_map(|(from, more)| Some(GetRange::Bounded(from..from + more))),
        (0..14_u64).prop_map(|from| Some(GetRange::Offset(from))),
        (1..14_u64).prop_map(|count| Some(GetRange::Suffix(count))),
    ];
    let prefix = 0..PREFIXES.len() as u8;
    prop_oneof![
        (key.clone(), text).prop_map(|(key, body)| Call::Put(key, body)),
        (key.clone(), text).prop_map(|(key, body)| Call::Create(key, body)),
        (key.clone(), text, 0..4_u8).prop_map(|(key, body, back)| Call::Update(key, body, back)),
        key.clone().prop_map(Call::Delete),
        (key.clone(), condition, range).prop_map(|(key, on, range)| Call::Get(key, on, range)),
        (
            key.clone(),
            prop::collection::vec((0..6_u64, 1..6_u64), 0..3)
        )
            .prop_map(|(key, ranges)| Call::Ranges(key, ranges)),
        (key.clone(), key.clone(), any::<bool>()).prop_map(|(a, b, it)| Call::Copy(a, b, it)),
        (key.clone(), key.clone()).prop_map(|(from, to)| Call::Rename(from, to)),
        (key.clone(), prop::collection::vec(text, 0..3))
            .prop_map(|(key, parts)| Call::Parts(key, parts)),
        prefix.clone().prop_map(Call::List),
        (prefix.clone(), key).prop_map(|(prefix, key)| Call::ListFrom(prefix, key)),
        prefix.prop_map(Call::Level),
    ]
}

fn of(key: u8) -> Path {
    Path::from(KEYS[key as usize])
}

fn under(prefix: u8) -> Option<Path> {
    Some(Path::from(PREFIXES[prefix as usize])).filter(|path| !path.as_ref().is_empty())
}

/// One store, and the ETags that its puts of each key gave, the last one first.
struct Side<'a> {
    store: &'a dyn ObjectStore,
    e_tags: Vec<(u8, Option<String>)>,
}

impl Side<'_> {
    fn e_tag(&self, key: u8, back: u8) -> String {
        let mut known = self.e_tags.iter().rev().filter(|(of, _)| *of == key);
        let found = known
            .nth(back as usize)
            .and_then(|(_, e_tag)| e_tag.clone());
        found.unwrap_or_else(|| "\"none\"".to_owned())
    }

    fn seen(&mut self, key: u8, put: object_store::Result<PutResult>) -> String {
        match put {
            Ok(put) => {
                self.e_tags.push((key, put.e_tag));
                "put".to_owned()
            }
            Err(error) => kind(&error),
        }
    }

    async fn metas(&self, metas: Vec<ObjectMeta>) -> Vec<(String, u64)> {
        let mut names: Vec<_> = metas
            .into_iter()
            .map(|meta| (meta.location.to_string(), meta.size))
            .collect();
        names.sort();
        names
    }

    async fn run(&mut self, call: &Call) -> String {
        let store = self.store;
        match call {
            Call::Put(key, body) => {
                let put = put_if(store, KEYS[*key as usize], body, PutMode::Overwrite).await;
                self.seen(*key, put)
            }
            Call::Create(key, body) => {
                let put = put_if(store, KEYS[*key as usize], body, PutMode::Create).await;
                self.seen(*key, put)
            }
            Call::Update(key, body, back) => {
                let version = UpdateVersion {
                    e_tag: Some(self.e_tag(*key, *back)),
                    version: None,
                };
                let mode = PutMode::Update(version);
                let put = put_if(store, KEYS[*key as usize], body, mode).await;
                self.seen(*key, put)
            }
            Call::Delete(key) => told(store.delete(&of(*key)).await),
            Call::Get(key, condition, range) => self.get(*key, *condition, range.clone()).await,
            Call::Ranges(key, ranges) => {
                let ranges: Vec<_> = ranges
                    .iter()
                    .map(|(from, more)| *from..from + more)
                    .collect();
                told(store.get_ranges(&of(*key), &ranges).await)
            }
            Call::Copy(from, to, is_overwrite) => match is_overwrite {
                true => told(store.copy(&of(*from), &of(*to)).await),
                false => told(store.copy_if_not_exists(&of(*from), &of(*to)).await),
            },
            // Of one key to itself the model deletes it.
            Call::Rename(from, to) if from == to => String::new(),
            Call::Rename(from, to) => told(store.rename(&of(*from), &of(*to)).await),
            Call::Parts(key, parts) => {
                let mut upload = store.put_multipart(&of(*key)).await.unwrap();
                for part in parts {
                    upload.put_part(part.clone().into()).await.unwrap();
                }
                let put = upload.complete().await;
                self.seen(*key, put)
            }
            Call::List(prefix) => {
                let prefix = under(*prefix);
                let found = store.list(prefix.as_ref()).try_collect().await.unwrap();
                format!("{:?}", self.metas(found).await)
            }
            Call::ListFrom(prefix, key) => {
                let prefix = under(*prefix);
                let found = store.list_with_offset(prefix.as_ref(), &of(*key));
                format!("{:?}", self.metas(found.try_collect().await.unwrap()).await)
            }
            Call::Level(prefix) => {
                let prefix = under(*prefix);
                let found = store.list_with_delimiter(prefix.as_ref()).await.unwrap();
                let objects = self.metas(found.objects).await;
                let folders: BTreeSet<_> = found.common_prefixes.into_iter().collect();
                format!("{objects:?} {folders:?}")
            }
        }
    }

    async fn get(&self, key: u8, condition: Condition, range: Option<GetRange>) -> String {
        let mut options = GetOptions {
            range,
            ..GetOptions::default()
        };
        let now = SystemTime::now();
        match condition {
            Condition::None => {}
            Condition::Match(back) => options.if_match = Some(self.e_tag(key, back)),
            Condition::NoneMatch(back) => options.if_none_match = Some(self.e_tag(key, back)),
            Condition::Any => options.if_none_match = Some("*".to_owned()),
            Condition::ModifiedLongAgo => {
                options.if_modified_since = Some((now - Duration::from_secs(3_600)).into());
            }
            Condition::UnmodifiedLongAgo => {
                options.if_unmodified_since = Some((now - Duration::from_secs(3_600)).into());
            }
        }
        match self.store.get_opts(&of(key), options).await {
            Ok(found) => {
                let range = found.range.clone();
                format!("{range:?} {:?}", found.bytes().await.unwrap())
            }
            Err(error) => kind(&error),
        }
    }
}

fn told<T: std::fmt::Debug>(outcome: object_store::Result<T>) -> String {
    match outcome {
        Ok(it) => format!("{it:?}"),
        Err(error) => kind(&error),
    }
}

fn kind(error: &Error) -> String {
    match error {
        // A range past the end is no object's: the model has no kind for it.
        Error::NotSupported { .. } | Error::Generic { .. } => "refused".to_owned(),
        error => format!("{:?}", fader_cloud::object_error_kind(error, true)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_folder_does_what_a_store_in_memory_does(
        calls in prop::collection::vec(calls(), 1..40)
    ) {
        let (at, folder) = folder();
        let memory = InMemory::new();
        block(async {
            let mut model = Side { store: &memory, e_tags: Vec::new() };
            let mut real = Side { store: &folder, e_tags: Vec::new() };
            for call in &calls {
                let (expected, found) = (model.run(call).await, real.run(call).await);
                assert_eq!(expected, found, "{call:?}");
            }
            let mut e_tags: Vec<_> = real.e_tags.iter().map(|(_, e_tag)| e_tag).collect();
            e_tags.sort();
            e_tags.dedup();
            assert_eq!(e_tags.len(), real.e_tags.len(), "an ETag was given twice");
        });
        prop_assert_eq!(staged(at.path()), Vec::<String>::new());
    }
}

#[test]
fn lists_are_in_the_order_of_keys_and_go_on_from_any() {
    let (_at, folder) = folder();
    block(async {
        let keys = [
            "a",
            "b/c",
            "b-",
            "b0",
            "b/a/x",
            "c/d/e/f",
            "\u{e9}",
            "z\u{fc}/x",
            "B",
        ];
        let mut keys = keys.map(|key| Path::parse(key).unwrap());
        for key in &keys {
            folder.put(key, "it".into()).await.unwrap();
        }
        keys.sort_unstable();
        for from in 0..keys.len() {
            let found = folder.list_with_offset(None, &keys[from]);
            let found = found.map_ok(|meta| meta.location);
            let found: Vec<Path> = found.try_collect().await.unwrap();
            assert_eq!(found, keys[from + 1..]);
        }
    });
}

#[test]
fn a_large_folder_is_listed_whole() {
    let (at, folder) = folder();
    // More names than the first buffer takes.
    for number in 0..3_000 {
        fs::write(at.path().join(format!("{number:050}")), "it").unwrap();
    }
    let count = block(folder.list(None).count());
    assert_eq!(count, 3_000);
}

#[test]
fn a_body_is_a_plain_file_and_a_file_put_there_by_hand_is_an_object() {
    let (at, folder) = folder();
    block(async {
        put_if(&folder, "a/b", "body", PutMode::Create)
            .await
            .unwrap();
        assert_eq!(fs::read_to_string(at.path().join("a/b")).unwrap(), "body");
        let file = at.path().join("a/hand");
        fs::write(&file, "by hand").unwrap();
        let first = folder.head(&Path::from("a/hand")).await.unwrap();
        let again = folder.head(&Path::from("a/hand")).await.unwrap();
        assert_eq!(first, again);
        assert_eq!(body(&folder, "a/hand").await.unwrap(), "by hand");
        std::thread::sleep(Duration::from_millis(20));
        let open = fs::OpenOptions::new().write(true).open(&file).unwrap();
        open.write_all_at(b"BY", 0).unwrap();
        let changed = folder.head(&Path::from("a/hand")).await.unwrap();
        assert_ne!(first.e_tag, changed.e_tag);
        let old = update_of(first);
        let refused = put_if(&folder, "a/hand", "it", old).await;
        assert!(
            matches!(refused, Err(Error::Precondition { .. })),
            "{refused:?}"
        );
        let new = update_of(changed);
        put_if(&folder, "a/hand", "it", new).await.unwrap();
    });
}

fn update_of(meta: ObjectMeta) -> PutMode {
    PutMode::Update(UpdateVersion {
        e_tag: meta.e_tag,
        version: None,
    })
}

#[test]
fn a_file_changed_or_copied_by_hand_has_another_e_tag() {
    let (at, folder) = folder();
    block(async {
        let put = put_if(&folder, "it", "body", PutMode::Create)
            .await
            .unwrap();
        let file = at.path().join("it");
        let kept = at.path().join("kept");
        let copied = std::process::Command::new("cp")
            .args(["--archive", "--"])
            .args([&file, &kept])
            .status();
        assert!(copied.unwrap().success());
        put_if(&folder, "it", "other", PutMode::Overwrite)
            .await
            .unwrap();
        fs::rename(&kept, &file).unwrap();
        assert_eq!(body(&folder, "it").await.unwrap(), "body");
        let refused = put_if(&folder, "it", "new", update(&put)).await;
        assert!(
            matches!(refused, Err(Error::Precondition { .. })),
            "{refused:?}"
        );
    });
}

#[test]
fn attributes_are_kept_and_copied() {
    let (_at, folder) = folder();
    let attributes: Attributes = [
        (Attribute::ContentType, "text/plain"),
        (Attribute::Metadata("fader-put".into()), "a mark"),
    ]
    .into_iter()
    .collect();
    block(async {
        let options = PutOptions::from(attributes.clone());
        let (from, to) = (Path::from("from"), Path::from("to/it"));
        folder
            .put_opts(&from, "body".into(), options)
            .await
            .unwrap();
        folder.copy(&from, &to).await.unwrap();
        for at in [&from, &to] {
            assert_eq!(folder.get(at).await.unwrap().attributes, attributes);
        }
        let e_tags = [folder.head(&from).await, folder.head(&to).await];
        let [from, to] = e_tags.map(|meta| meta.unwrap().e_tag.unwrap());
        assert_ne!(from, to);
        let long = Attribute::Metadata("long".into());
        let attributes: Attributes = [(long, "x".repeat(100_000))].into_iter().collect();
        let at = Path::from("long");
        let refused = folder.put_opts(&at, "it".into(), attributes.into()).await;
        assert!(
            matches!(refused, Err(Error::NotSupported { .. })),
            "{refused:?}"
        );
        assert!(matches!(
            body(&folder, "long").await,
            Err(Error::NotFound { .. })
        ));
    });
}

#[test]
fn a_key_below_a_key_is_refused_until_it_is_gone() {
    let (_at, folder) = folder();
    block(async {
        put_if(&folder, "a/b/c", "it", PutMode::Create)
            .await
            .unwrap();
        for mode in [PutMode::Overwrite, PutMode::Create] {
            let refused = put_if(&folder, "a", "it", mode.clone()).await;
            assert!(
                matches!(refused, Err(Error::NotSupported { .. })),
                "{refused:?}"
            );
            let refused = put_if(&folder, "a/b/c/d", "it", mode).await;
            assert!(
                matches!(refused, Err(Error::NotSupported { .. })),
                "{refused:?}"
            );
        }
        for missing in ["a", "a/b", "a/b/c/d"] {
            let found = body(&folder, missing).await;
            assert!(matches!(found, Err(Error::NotFound { .. })), "{found:?}");
            folder.delete(&Path::from(missing)).await.unwrap();
        }
        assert_eq!(body(&folder, "a/b/c").await.unwrap(), "it");
        folder.delete(&Path::from("a/b/c")).await.unwrap();
        put_if(&folder, "a", "it", PutMode::Create).await.unwrap();
        assert_eq!(body(&folder, "a").await.unwrap(), "it");
    });
}

#[test]
fn links_and_the_stores_own_folder_are_refused() {
    let (at, folder) = folder();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    symlink(outside.path(), at.path().join("out")).unwrap();
    symlink(outside.path().join("secret"), at.path().join("file")).unwrap();
    block(async {
        for key in ["out/secret", "file", ".fader/format", ".Fader/x"] {
            let found = body(&folder, key).await;
            assert!(
                matches!(found, Err(Error::NotSupported { .. })),
                "{key}: {found:?}"
            );
        }
        for key in ["out/secret", "out/new", ".fader/format", ".fader"] {
            let put = put_if(&folder, key, "it", PutMode::Overwrite).await;
            assert!(
                matches!(put, Err(Error::NotSupported { .. })),
                "{key}: {put:?}"
            );
            let deleted = folder.delete(&Path::from(key)).await;
            assert!(deleted.is_err(), "{key}");
        }
        let long = "x".repeat(256);
        let put = put_if(&folder, &long, "it", PutMode::Overwrite).await;
        assert!(matches!(put, Err(Error::NotSupported { .. })), "{put:?}");
        put_if(&folder, &long[1..], "it", PutMode::Create)
            .await
            .unwrap();
        let listed: Vec<_> = folder.list(None).try_collect().await.unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
    });
    let secret = fs::read_to_string(outside.path().join("secret"));
    assert_eq!(secret.unwrap(), "secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_that_is_missing_or_of_a_newer_format_is_refused() {
    let at = tempfile::tempdir().unwrap();
    let error = Folder::open(at.path().join("nowhere")).unwrap_err();
    assert!(error.to_string().contains("mkdir -p"), "{error}");
    fs::create_dir(at.path().join(".fader")).unwrap();
    fs::write(at.path().join(".fader/format"), "fader folder 2\n").unwrap();
    let error = Folder::open(at.path()).unwrap_err();
    assert!(error.to_string().contains("newer"), "{error}");
    fs::write(at.path().join(".fader/format"), "junk").unwrap();
    let error = Folder::open(at.path()).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(Folder::open("/proc/self/mem").is_err());
}

#[test]
fn a_store_that_only_reads_changes_nothing() {
    let (at, folder) = folder();
    fs::write(at.path().join("it"), "body").unwrap();
    block(async {
        assert_eq!(body(&folder, "it").await.unwrap(), "body");
        assert_eq!(folder.list(None).count().await, 1);
    });
    assert!(!at.path().join(".fader").exists());
}

/// It shows FOLDER-1.
#[test]
fn leftovers_of_the_dead_are_removed_and_bodies_of_the_living_are_not() {
    let (at, folder) = folder();
    block(async {
        let mut upload = folder.put_multipart(&Path::from("it")).await.unwrap();
        upload.put_part("part".into()).await.unwrap();
        let dead = at
            .path()
            .join(".fader/staged/00000000000000000000000000000000");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("left"), "left over").unwrap();
        let other = Folder::open(at.path()).unwrap();
        put_if(&other, "other", "it", PutMode::Create)
            .await
            .unwrap();
        assert!(!dead.exists());
        assert_eq!(staged(at.path()).len(), 1);
        upload.complete().await.unwrap();
        assert_eq!(body(&other, "it").await.unwrap(), "part");
        let mut upload = folder.put_multipart(&Path::from("it")).await.unwrap();
        upload.put_part("part".into()).await.unwrap();
        upload.abort().await.unwrap();
        drop(folder.put_multipart(&Path::from("it")).await.unwrap());
    });
    assert_eq!(staged(at.path()), Vec::<String>::new());
    drop(folder);
    assert_eq!(
        fs::read_dir(at.path().join(".fader/staged"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn parts_land_in_their_order_and_a_missing_one_is_noticed() {
    let (_at, folder) = folder();
    block(async {
        let mut upload = folder.put_multipart(&Path::from("it")).await.unwrap();
        let parts = ["one, ", "two, ", "three"].map(|part| upload.put_part(part.into()));
        for part in parts.into_iter().rev() {
            part.await.unwrap();
        }
        upload.complete().await.unwrap();
        assert_eq!(body(&folder, "it").await.unwrap(), "one, two, three");
        let mut upload = folder.put_multipart(&Path::from("it")).await.unwrap();
        drop(upload.put_part("never".into()));
        assert!(upload.complete().await.is_err());
        assert_eq!(body(&folder, "it").await.unwrap(), "one, two, three");
    });
}

#[test]
fn a_body_is_read_as_it_was_when_it_was_opened() {
    let (_at, folder) = folder();
    block(async {
        let long = "0123456789".repeat(300_000);
        put_if(&folder, "it", &long, PutMode::Create).await.unwrap();
        let found = folder.get(&Path::from("it")).await.unwrap();
        put_if(&folder, "it", "short", PutMode::Overwrite)
            .await
            .unwrap();
        folder.delete(&Path::from("it")).await.unwrap();
        assert_eq!(found.bytes().await.unwrap(), long.as_bytes());
    });
}

#[test]
fn an_empty_folder_goes_when_it_has_been_empty_for_long() {
    let (at, folder) = folder();
    block(async {
        put_if(&folder, "a/b/c", "it", PutMode::Create)
            .await
            .unwrap();
        folder.delete(&Path::from("a/b/c")).await.unwrap();
        assert_eq!(folder.list(None).count().await, 0);
        assert!(at.path().join("a/b").exists());
        let long_ago = SystemTime::now() - Duration::from_secs(61);
        let inner = fs::File::open(at.path().join("a/b")).unwrap();
        inner.set_modified(long_ago).unwrap();
        assert_eq!(folder.list(None).count().await, 0);
        assert!(!at.path().join("a/b").exists());
        put_if(&folder, "a/b/c", "it", PutMode::Create)
            .await
            .unwrap();
    });
}

#[test]
fn without_files_to_open_a_put_says_so_and_changes_nothing() {
    let (_at, folder) = folder();
    block(async {
        put_if(&folder, "it", "first", PutMode::Create)
            .await
            .unwrap();
        // As the operating system says it.
        let error = std::io::Error::from_raw_os_error(24);
        let error = super::super::failure::failed("it", super::super::failure::Effect::None, error);
        assert!(error.to_string().contains("ulimit -n"), "{error}");
        assert!(error.to_string().contains("nothing was changed"), "{error}");
        let kind = fader_cloud::object_error_kind(&error, true);
        assert_eq!(
            kind,
            fader_cloud::ErrorKind::Unavailable { retry_after: None }
        );
    });
}
