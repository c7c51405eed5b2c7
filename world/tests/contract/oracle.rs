//! The leak oracle of this machine: what a test left behind, told from what was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long something that comes without being waited for may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The beginning of the names of folders in which a text is staged before it is put in its place.
const STAGING: &str = ".lspool-staging-";

/// The beginning of the names of folders with spilled output; after it come a namespace and the owner's process id.
const SPILL: &str = "lspool-output-";

/// Waits for what nothing tells of; fails when it does not come.
pub(crate) async fn eventually(what: &str, mut has_come: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !has_come().await {
        assert!(begun.elapsed() < PATIENCE, "this never came: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What this process has of the system's.
pub(crate) struct OwnProcess {
    descriptors: BTreeMap<OsString, PathBuf>,
    descendants: BTreeSet<u32>,
    spill_folders: BTreeSet<OsString>,
}

impl OwnProcess {
    /// What it has now, where it runs one test alone; beside others nothing could be told apart.
    pub(crate) fn of_one_test() -> Option<Self> {
        let mode = std::env::var_os("NEXTEST_EXECUTION_MODE")?;
        (mode == "process-per-test").then(|| {
            adopt_orphans();
            Self::now()
        })
    }

    /// Waits until all that has come since is gone, and fails when it stays: a call whose caller is gone may still be on
    /// its way, with a descriptor.
    pub(crate) async fn come_back(&self) {
        let begun = Instant::now();
        loop {
            let left = Self::now().beyond(self);
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "still there: {left:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn now() -> Self {
        let spilled = names(&std::env::temp_dir()).into_iter();
        Self {
            descriptors: descriptors(),
            descendants: descendants(std::process::id()),
            spill_folders: spilled.filter(|name| is_own_spill_folder(name)).collect(),
        }
    }

    /// What has come since `before`, for people.
    fn beyond(&self, before: &Self) -> Vec<String> {
        let descriptors = self
            .descriptors
            .iter()
            .filter(|(number, leads_to)| before.descriptors.get(*number) != Some(leads_to))
            .map(|(number, leads_to)| {
                format!("descriptor {} to {}", number.display(), leads_to.display())
            });
        let descendants = self
            .descendants
            .difference(&before.descendants)
            .map(|pid| format!("process {pid}"));
        let folders = self
            .spill_folders
            .difference(&before.spill_folders)
            .map(|name| format!("spill folder {}", name.display()));
        descriptors.chain(descendants).chain(folders).collect()
    }
}

/// Makes every orphan below this process a child of it, so that whatever a test leaves is found there.
#[cfg(target_os = "linux")]
fn adopt_orphans() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}

/// The processes that run and have `entry` in their environment.
pub(crate) fn running_with_entry(entry: &str) -> Vec<u32> {
    let has_entry = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|candidate| candidate == entry.as_bytes())
    };
    pids()
        .filter(|pid| parent_if_running(*pid).is_some())
        .filter(has_entry)
        .collect()
}

/// The parent of a process that runs; a zombie does not.
pub(crate) fn parent_if_running(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!["Z", "X", "x"].contains(&state)).then_some(parent)
}

/// Whether a name is that of a folder with spilled output of this process.
fn is_own_spill_folder(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let owner = name
        .strip_prefix(SPILL)
        .and_then(|parts| parts.split('-').nth(1));
    owner == Some(&std::process::id().to_string())
}

/// The names in a folder, in order.
pub(crate) fn names(folder: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// The staging folders below a folder.
pub(crate) fn staging_folders(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        // A folder that a test made unreadable holds nothing that a write could have put there.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(STAGING) {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    found
}

/// The open descriptors of this process and where they lead, but for the one that lists them.
fn descriptors() -> BTreeMap<OsString, PathBuf> {
    let listing = PathBuf::from(format!("/proc/{}/fd", std::process::id()));
    let numbers = names(&listing).into_iter();
    numbers
        .filter_map(|number| {
            let leads_to = fs::read_link(listing.join(&number)).ok()?;
            (leads_to != listing).then_some((number, leads_to))
        })
        .collect()
}

/// The processes that run below a process.
fn descendants(root: u32) -> BTreeSet<u32> {
    let parents: BTreeMap<u32, u32> = pids()
        .filter_map(|pid| Some((pid, parent_if_running(pid)?)))
        .collect();
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for (pid, parent) in &parents {
            if *parent == root || found.contains(parent) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[test]
fn what_a_test_leaves_is_found() {
    let before = OwnProcess::now();
    let folder = tempfile::tempdir().unwrap();

    // given a descriptor, a child with an entry, a spill folder and a staging folder
    let file = fs::File::create(folder.path().join("file")).unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("1000")
        .env("WORLD_CONTRACT_LEFT", folder.path())
        .spawn()
        .unwrap();
    let spilled = std::env::temp_dir().join(format!("{SPILL}0-{}-oracle", std::process::id()));
    fs::create_dir(&spilled).unwrap();
    let staged = folder.path().join("deep").join(STAGING.to_owned() + "1");
    fs::create_dir_all(&staged).unwrap();
    let entry = format!("WORLD_CONTRACT_LEFT={}", folder.path().display());

    // then each is told
    let left = OwnProcess::now().beyond(&before).join("\n");
    assert!(left.contains(folder.path().to_str().unwrap()), "{left}");
    assert!(left.contains(&format!("process {}", child.id())), "{left}");
    assert!(left.contains("oracle"), "{left}");
    assert_eq!(staging_folders(folder.path()), [staged]);
    assert_eq!(running_with_entry(&entry), [child.id()]);

    // and no longer once it is gone
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_dir(spilled).unwrap();
    drop(file);
    let left = OwnProcess::now().beyond(&before).join("\n");
    assert!(!left.contains(folder.path().to_str().unwrap()), "{left}");
    assert!(!left.contains(&format!("process {}", child.id())), "{left}");
    assert_eq!(running_with_entry(&entry), [0; 0]);
}
