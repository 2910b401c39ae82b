//! Files within their bytes, and none that is wrong.

use std::collections::BTreeMap;

use super::*;

/// Files in memory.
#[derive(Debug, Default)]
pub(crate) struct Files(Mutex<BTreeMap<String, Bytes>>);

impl Files {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.0.lock().expect("nothing panics while it is locked")
    }
}

impl PageFiles for Files {
    fn list(&self) -> Vec<(String, u64)> {
        let all = self.all();
        let all = all.iter();
        all.map(|(name, file)| (name.clone(), file.len() as u64))
            .collect()
    }

    fn read(&self, name: &str) -> Option<Bytes> {
        self.all().get(name).cloned()
    }

    fn write(&self, name: &str, content: &[u8]) -> bool {
        let content = Bytes::copy_from_slice(content);
        self.all().insert(name.to_owned(), content);
        true
    }

    fn remove(&self, name: &str) {
        self.all().remove(name);
    }
}

fn version(e_tag: &str) -> UpdateVersion {
    UpdateVersion {
        e_tag: Some(e_tag.to_owned()),
        version: None,
    }
}

fn open(files: &Arc<Files>, bytes_max: u64) -> Disk {
    let tier = DiskTier {
        files: files.clone(),
        bytes_max,
    };
    Disk::open(tier, "shop")
}

const NOW: Duration = Duration::from_secs(1);

/// It shows DISK-1.
#[test]
fn a_later_process_does_not_take_a_page_for_the_newest() {
    let files = Arc::new(Files::default());
    let disk = open(&files, 10_000);
    let page = Bytes::from_static(b"page");
    disk.put(PageId(1), &page, &version("e"), NOW);
    let kept = |seen| Kept {
        bytes: page.clone(),
        version: version("e"),
        seen,
    };
    assert_eq!(disk.get(PageId(1)), Some(kept(Some(NOW))));
    disk.confirm(PageId(1), 2 * NOW);
    assert_eq!(disk.get(PageId(1)), Some(kept(Some(2 * NOW))));
    let later = open(&files, 10_000);
    assert_eq!(later.get(PageId(1)), Some(kept(None)));
    later.confirm(PageId(1), NOW);
    assert_eq!(later.get(PageId(1)), Some(kept(Some(NOW))));
    later.doubt(PageId(1));
    assert_eq!(later.get(PageId(1)), Some(kept(None)));
    assert_eq!(later.get(PageId(2)), None);
}

/// It shows DISK-2.
#[test]
fn a_damaged_file_is_missing() {
    let files = Arc::new(Files::default());
    let disk = open(&files, 10_000);
    let bytes = Bytes::from_static(b"page");
    let whole = {
        disk.put(PageId(1), &bytes, &version("e"), NOW);
        let all = files.all();
        all.values().next().expect("one file").clone()
    };
    let name = disk.name(PageId(1));
    for at in 0..whole.len() {
        for damaged in [whole[..at].to_vec(), {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 1;
            damaged
        }] {
            disk.put(PageId(1), &bytes, &version("e"), NOW);
            files.write(&name, &damaged);
            assert_eq!(disk.get(PageId(1)), None, "{at}");
            assert!(files.all().is_empty(), "{at}");
        }
    }
    // The file of another page.
    disk.put(PageId(1), &bytes, &version("e"), NOW);
    disk.put(PageId(2), &bytes, &version("e"), NOW);
    files.write(&disk.name(PageId(2)), &whole);
    assert_eq!(disk.get(PageId(2)), None);
    files.remove(&name);
    assert_eq!(disk.get(PageId(1)), None);
}

/// It shows DISK-3.
#[test]
fn what_was_used_last_stays_within_the_bytes() {
    let files = Arc::new(Files::default());
    let bytes = Bytes::from(vec![7; 100]);
    let bytes_max = 500;
    let disk = open(&files, bytes_max);
    let sum = || -> u64 { files.list().iter().map(|(_, bytes)| bytes).sum() };
    for id in 0..20 {
        disk.put(PageId(id), &bytes, &version("e"), NOW);
        assert!(disk.get(PageId(0)).is_some(), "{id}");
        assert!(sum() <= bytes_max, "{id}");
    }
    assert!(disk.get(PageId(1)).is_none());
    assert!(disk.get(PageId(19)).is_some());
    let large = Bytes::from(vec![7; 500]);
    disk.put(PageId(19), &large, &version("e"), NOW);
    assert!(disk.get(PageId(19)).is_none());
    let smaller = open(&files, 200);
    assert_eq!(files.list().len(), 1);
    assert!(sum() <= 200);
    let unnamed = UpdateVersion {
        e_tag: None,
        version: None,
    };
    smaller.put(PageId(30), &bytes, &unnamed, NOW);
    assert!(smaller.get(PageId(30)).is_none());
}

/// It shows DISK-4.
#[test]
fn chunks_of_write_sets_stay_until_they_are_deleted_or_the_tier_is_opened_again() {
    let files = Arc::new(Files::default());
    let bytes = Bytes::from(vec![7; 100]);
    let disk = open(&files, 500);
    let names = || files.list().into_iter().map(|(name, _)| name);
    let count = || names().filter(|name| name.starts_with(SPILL)).count();
    disk.put(PageId(1), &bytes, &version("e"), NOW);
    for id in 0..5 {
        assert!(disk.put_spilled(id, &bytes));
        assert_eq!(disk.spilled(id), Some(bytes.clone()));
    }
    assert!(disk.get(PageId(1)).is_none(), "the page made room");
    assert!(!disk.put_spilled(5, &[7]));
    disk.put(PageId(1), &bytes, &version("e"), NOW);
    assert!(disk.get(PageId(1)).is_none(), "there is no place");
    assert_eq!(count(), 5);
    assert!(disk.remove_spilled(0));
    assert!(!disk.remove_spilled(0));
    assert!(disk.put_spilled(5, &[7]));
    assert_eq!(count(), 5);
    drop(disk);
    // As after a crash.
    let later = open(&files, 500);
    assert_eq!(count(), 0);
    for id in 10..14 {
        assert!(later.put_spilled(id, &bytes));
        assert!(later.remove_spilled(id));
    }
    later.put(PageId(2), &bytes, &version("e"), NOW);
    assert!(later.get(PageId(2)).is_some());
}
