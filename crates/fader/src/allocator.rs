//! What the allocator keeps of memory that is free.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What has mimalloc give memory back: pages at once when they are free, and none ahead of need. A
/// thread keeps no free page, and looks for them at each 200th slow allocation, not at each
/// 10,000th. By default a job of 64 MiB takes two to three times its `--memory`, one of 512 MiB
/// about as much as it.
const SETTINGS: [(&str, &str); 4] = [
    ("MIMALLOC_PURGE_DELAY", "0"),
    ("MIMALLOC_ARENA_EAGER_COMMIT", "0"),
    ("MIMALLOC_PAGE_FULL_RETAIN", "0"),
    ("MIMALLOC_GENERIC_COLLECT", "200"),
];

/// Has the allocator of a process that is begun take pages of 4 KiB. Each of many threads touches
/// little memory, in several places. A huge page is cleared whole for each of these.
pub(crate) fn for_many_threads(process: &mut Command) {
    let name = "MIMALLOC_ALLOW_THP";
    if env::var_os(name).is_none() {
        process.env(name, "0");
    }
}

/// Has the allocator keep little: for a process that promised how much memory it takes.
///
/// The allocator reads its settings before `main`, when it takes its first memory. So the program
/// begins again, as the same process with the same arguments. Settings of the user stand. Where the
/// program cannot begin again it goes on, and takes more memory.
pub(crate) fn keep_little() {
    if SETTINGS.iter().any(|(name, _)| env::var_os(name).is_some()) {
        return;
    }
    let mut arguments = env::args_os();
    let (Some(name), Ok(program)) = (arguments.next(), env::current_exe()) else {
        return;
    };
    let mut again = Command::new(program);
    again.arg0(name).args(arguments).envs(SETTINGS);
    // It returns only when it failed.
    drop(again.exec());
}
