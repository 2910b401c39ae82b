//! What the trees leave to us about their files. Their folders must be durable. Two lists must be
//! whole which they read without looking at the sums that they wrote.
//!
//! ```text
//! current := number:u64  sum:u128  0      of v<number>, the list of a tree's tables
//! table   := ...  list  "SFA!" 1 0 sum:u128 offset:u64 size:u64      the list of its parts
//! ```
//!
//! Numbers are little-endian, sums are XXH3. All else in a table is in blocks with sums of their
//! own, checked whenever a block is read:
//!
//! ```text
//! block   := "LSM" version:u8 type:u8 sum:u128 size:u32 size:u32 sum:u32 of what is before  bytes
//! ```
//!
//! The list of tables has a sum of each table, so that what rotted is found before it is read.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::storage::disk::{Disk, RealDisk};

const CURRENT_SIZE: usize = 25;
const TRAILER_SIZE: usize = 38;
const BLOCK_HEADER_SIZE: usize = 33;
/// Bytes of a table that are read at once.
const PIECE_SIZE: usize = 256 << 10;
/// No list of parts is near this size.
const LIST_SIZE_MAX: u64 = 1 << 20;

/// Makes the trees' folders, closed to other users; the trees sync what is in them.
pub(super) fn create_folders<const N: usize>(folder: &Path, names: [&str; N]) -> io::Result<()> {
    for name in names {
        RealDisk.create_folder(&folder.join(name))?;
    }
    File::open(folder)?.sync_all()?;
    folder
        .parent()
        .map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// Checks the lists of a tree, and makes durable which of them is the newest: a process that was
/// killed may not have. Of tables of so many bytes as `unverified` says all is read. Damage in
/// their blocks comes back in words, with file and offset.
///
/// # Errors
/// In words, with the file: the tree cannot be opened.
pub(super) fn check(folder: &Path, unverified: &mut u64) -> Result<Vec<String>, String> {
    let current = folder.join("current");
    let named = match std::fs::read(&current) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match is_new(folder) {
                Ok(true) => Ok(Vec::new()),
                Ok(false) => Err(format!(
                    "{} is missing, and there are tables",
                    current.display()
                )),
                Err(error) => Err(format!("{}: {error}", folder.display())),
            };
        }
        Err(error) => return Err(format!("{}: {error}", current.display())),
    };
    let Some((number, sum)) = split_current(&named) else {
        return Err(format!("{} does not name a list", current.display()));
    };
    let list = folder.join(format!("v{number}"));
    let bytes = std::fs::read(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    if xxh3_128(&bytes) != sum {
        return Err(format!("the checksum of {} does not match", list.display()));
    }
    let tables = listed_tables(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let mut damage = Vec::new();
    for (table, sum) in tables {
        let path = folder.join("tables").join(table.to_string());
        let is_whole = has_whole_list(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        if !is_whole {
            return Err(format!(
                "the list of parts of {} is damaged",
                path.display()
            ));
        }
        let found = verify(&path, sum, unverified);
        damage.extend(found.map_err(|e| format!("{}: {e}", path.display()))?);
    }
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| format!("syncing {}: {error}", folder.display()))?;
    Ok(damage)
}

/// Removes the tables of a tree but these, whose list has this number. If it was not the last list
/// to be written, nothing is known to be needless.
pub(super) fn remove_others(folder: &Path, list: u64, kept: &BTreeSet<u64>) -> io::Result<()> {
    let named = std::fs::read(folder.join("current"))?;
    if split_current(&named).is_none_or(|(number, _)| number != list) {
        return Ok(());
    }
    for table in std::fs::read_dir(folder.join("tables"))? {
        let table = table?;
        let number = table.file_name().to_str().and_then(|it| it.parse().ok());
        if number.is_some_and(|number| !kept.contains(&number)) {
            // Its room comes back even if it is open.
            File::options()
                .write(true)
                .truncate(true)
                .open(table.path())?;
            std::fs::remove_file(table.path())?;
        }
    }
    Ok(())
}

/// Whether a tree was never used: a start that was cut short leaves lists, but no tables.
fn is_new(folder: &Path) -> io::Result<bool> {
    match std::fs::read_dir(folder.join("tables")) {
        Ok(mut tables) => Ok(tables.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Reads a table, if it is not too large, and says where it is not what was written.
fn verify(path: &Path, sum: u128, unverified: &mut u64) -> io::Result<Option<String>> {
    let size = std::fs::metadata(path)?.len();
    let Some(left) = unverified.checked_sub(size) else {
        return Ok(None);
    };
    *unverified = left;
    if sum_of(path)? == sum {
        return Ok(None);
    }
    let offset = first_bad(&std::fs::read(path)?);
    let path = path.display();
    Ok(Some(format!(
        "{path}: the block at offset {offset} is damaged"
    )))
}

/// The sum of a file, read in pieces that stay in the processor's cache.
fn sum_of(path: &Path) -> io::Result<u128> {
    let (mut file, mut sum) = (File::open(path)?, Xxh3::new());
    let mut piece = vec![0; PIECE_SIZE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(sum.digest128()),
            count => sum.update(&piece[..count]),
        }
    }
}

/// Where the first block begins that is not whole.
fn first_bad(bytes: &[u8]) -> usize {
    let mut offset = 0;
    while let Some(end) = block_end(bytes, offset) {
        offset = end;
    }
    offset
}

fn block_end(bytes: &[u8], offset: usize) -> Option<usize> {
    let header = bytes.get(offset..offset + BLOCK_HEADER_SIZE)?;
    let (head, sum) = header.split_last_chunk::<4>()?;
    let is_whole = xxh3_128(head) as u32 == u32::from_le_bytes(*sum);
    let content = u128::from_le_bytes(head.get(5..21)?.try_into().ok()?);
    let size = u32::from_le_bytes(head.get(21..25)?.try_into().ok()?);
    let start = offset + BLOCK_HEADER_SIZE;
    let end = start.checked_add(size as usize)?;
    (is_whole && xxh3_128(bytes.get(start..end)?) == content).then_some(end)
}

/// The tables that a list names; others are what a crash left of tables that never came to be.
fn listed_tables(list: &Path) -> io::Result<Vec<(u64, u128)>> {
    let archive = sfa::Reader::new(list).map_err(|error| io::Error::other(format!("{error:?}")))?;
    let section = archive
        .toc()
        .section(b"tables")
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut reader = section.buf_reader(list)?;
    let mut tables = Vec::new();
    for _level in 0..read::<1>(&mut reader)?[0] {
        for _run in 0..read::<1>(&mut reader)?[0] {
            for _table in 0..u32::from_le_bytes(read(&mut reader)?) {
                let number = u64::from_le_bytes(read(&mut reader)?);
                let _kind_of_sum = read::<1>(&mut reader)?;
                tables.push((number, u128::from_le_bytes(read(&mut reader)?)));
                let _sequence_number = read::<8>(&mut reader)?;
            }
        }
    }
    Ok(tables)
}

fn read<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn split_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let bytes = <&[u8; CURRENT_SIZE]>::try_from(bytes).ok()?;
    let (number, rest) = bytes.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    (rest == [0]).then(|| (u64::from_le_bytes(*number), u128::from_le_bytes(*sum)))
}

fn has_whole_list(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut trailer = [0; TRAILER_SIZE];
    let Some(trailer_at) = size.checked_sub(TRAILER_SIZE as u64) else {
        return Ok(false);
    };
    file.read_exact_at(&mut trailer, trailer_at)?;
    let Some((sum, offset, list_size)) = split_trailer(&trailer) else {
        return Ok(false);
    };
    if offset.checked_add(list_size) != Some(trailer_at) || LIST_SIZE_MAX < list_size {
        return Ok(false);
    }
    let mut list = vec![0; list_size as usize];
    file.read_exact_at(&mut list, offset)?;
    Ok(xxh3_128(&list) == sum)
}

fn split_trailer(bytes: &[u8; TRAILER_SIZE]) -> Option<(u128, u64, u64)> {
    let rest = bytes.strip_prefix(b"SFA!\x01\x00")?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let size = <[u8; 8]>::try_from(rest).ok()?;
    let [offset, size] = [*offset, size].map(u64::from_le_bytes);
    Some((u128::from_le_bytes(*sum), offset, size))
}
