//! This machine with control groups, and what it promises of them. Where none can be made the suites run as on the machine
//! without them, and `groups_are_made_where_they_can_be` holds that this is a fact of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lspool_world::local::ControlGroups;
use lspool_world::subprocess::Containment;
use lspool_world::{ProcessHandle, World};

use crate::fixture::{Fixture, LONG, LocalFixture, SHORT};
use crate::oracle;

/// How long the removal of a fixture's groups may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Control groups of a test's own.
pub(crate) fn groups() -> Option<Arc<ControlGroups>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("contract-{}-{number}", std::process::id());
    ControlGroups::make(&name).map(Arc::new)
}

/// Proves that no tree left its group, and removes the rest.
pub(crate) fn close(groups: &ControlGroups) {
    let left: Vec<_> = oracle::names(groups.path())
        .into_iter()
        .filter(|name| groups.path().join(name).is_dir())
        .collect();
    assert!(left.is_empty(), "control groups were left: {left:?}");
    groups.end(PATIENCE).unwrap();
    assert!(!groups.path().exists());
}

/// This machine, with control groups where they can be made.
pub(crate) struct GroupedFixture {
    local: LocalFixture,
    groups: Option<Arc<ControlGroups>>,
}

impl Fixture for GroupedFixture {
    async fn open() -> Self {
        let groups = groups();
        Self {
            local: LocalFixture::held_by(groups.clone()),
            groups,
        }
    }

    async fn close(self) {
        self.local.close().await;
        if let Some(groups) = self.groups {
            close(&groups);
        }
    }

    fn world(&self) -> &World {
        self.local.world()
    }

    fn scratch(&self) -> &Path {
        self.local.scratch()
    }

    fn oracle(&self) -> &str {
        self.local.oracle()
    }

    fn put_at(&self, path: &Path, bytes: &[u8]) -> PathBuf {
        self.local.put_at(path, bytes)
    }

    fn folder(&self, path: &str) -> PathBuf {
        self.local.folder(path)
    }

    fn link(&self, target: &str, path: &str) -> PathBuf {
        self.local.link(target, path)
    }

    fn fifo(&self, path: &str) -> PathBuf {
        self.local.fifo(path)
    }

    fn remove(&self, path: &Path) {
        self.local.remove(path);
    }

    fn permit(&self, path: &Path, mode: u32) {
        self.local.permit(path, mode);
    }

    fn left_running(&self) -> Vec<u32> {
        self.local.left_running()
    }

    fn runs(&self, pid: u32) -> bool {
        self.local.runs(pid)
    }

    fn exists(&self, pid: u32) -> bool {
        self.local.exists(pid)
    }
}

impl GroupedFixture {
    /// The folder of a process's control group, as it is seen below the owner's.
    fn group_of(&self, process: &dyn ProcessHandle) -> Option<PathBuf> {
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", process.pid()?)).unwrap();
        let unified = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let group = self
            .groups
            .as_ref()?
            .path()
            .join(Path::new(unified).file_name()?);
        group.exists().then_some(group)
    }
}

fn writable(file: &str) -> bool {
    fs::OpenOptions::new().write(true).open(file).is_ok()
}

#[tokio::test]
async fn groups_are_made_where_they_can_be() {
    // given whether this user may change the root of the hierarchy, wherever it is mounted
    let is_root = ["", "/unified"]
        .iter()
        .any(|mount| writable(&format!("/sys/fs/cgroup{mount}/cgroup.procs")));
    let fixture = GroupedFixture::open().await;

    // then the root gets groups, and the facts tell what is in force
    assert!(fixture.groups.is_some() || !is_root);
    let containment = match &fixture.groups {
        Some(_) => Containment::ControlGroup,
        None => Containment::ProcessTable,
    };
    let facts = fixture.world().subprocess().facts();
    assert_eq!(facts.containment, containment);
    let (process, _) = fixture
        .started("echo ready; exec sleep 1000", LONG, 1)
        .await;
    assert_eq!(
        fixture.group_of(&*process).is_some(),
        fixture.groups.is_some()
    );
    process.terminate().await.unwrap();
    fixture.close().await;
}

#[tokio::test]
async fn a_name_that_is_no_part_of_a_path_makes_no_group() {
    for name in ["", "a/b", "..\n", "a b", &"x".repeat(129)] {
        assert!(ControlGroups::make(name).is_none(), "{name:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_trees_leave_no_group() {
    const AT_ONCE: usize = 8;
    let fixture = GroupedFixture::open().await;
    for _ in 0..1000 / AT_ONCE {
        let mut trees = Vec::new();
        for _ in 0..AT_ONCE {
            trees.push(
                fixture
                    .start(fixture.command(&["/bin/true".as_ref()]))
                    .await,
            );
        }
        for tree in trees {
            tree.wait_for_exit().await.unwrap();
        }
    }

    if let Some(groups) = &fixture.groups {
        let names = oracle::names(groups.path());
        let folders = names
            .iter()
            .filter(|name| groups.path().join(name).is_dir());
        assert_eq!(folders.count(), 0);
    }
    fixture.close().await;
}

#[tokio::test]
async fn a_group_that_the_tree_made_is_ended_and_removed_with_it() {
    let fixture = GroupedFixture::open().await;
    let script = "echo $$; read go; mkdir -p \"$GROUP/a/b\" && echo 0 >\"$GROUP/a/b/cgroup.procs\"
        (env -i \"$(command -v setsid)\" /bin/sh -c 'trap \"\" TERM; echo $$; while :; do /bin/sleep 0.05; done' &)
        exec sleep 1000";
    let (process, member) = in_own_group(&fixture, script).await;

    process.terminate().await.unwrap();

    if fixture.groups.is_some() {
        assert!(!fixture.runs(member));
    } else {
        lspool_world::local::ProcessEntry::read(member)
            .unwrap()
            .identity
            .kill();
    }
    fixture.close().await;
}

#[tokio::test]
async fn a_member_that_moved_itself_out_is_still_ended() {
    let fixture = GroupedFixture::open().await;
    let script =
        "echo $$; read go; setsid sh -c 'trap \"\" TERM; echo 0 >\"$GROUP/../cgroup.procs\"
        echo $$; while :; do sleep 0.05; done' & wait";
    let (process, member) = in_own_group(&fixture, script).await;

    process.terminate().await.unwrap();

    assert!(!fixture.runs(member));
    fixture.close().await;
}

/// Starts a script that prints its own id, learns from its input which folder `GROUP` is, and then prints the id of a
/// member.
async fn in_own_group(fixture: &GroupedFixture, script: &str) -> (Box<dyn ProcessHandle>, u32) {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    let script = script.replace("read go", "read -r GROUP; export GROUP");
    let mut spec = fixture.script(&script);
    spec.grace = SHORT;
    spec.stdin = lspool_world::StdinMode::Pipe;
    spec.stdout = lspool_world::OutputMode::Pipe;
    let process = fixture.start(spec).await;
    let mut lines = BufReader::new(process.take_stdout().unwrap()).lines();
    let own: u32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    assert_eq!(Some(own), process.pid());
    let group = fixture.group_of(&*process);
    // Where there is no group, what is written to its files is written to plain ones.
    let plain = fixture.folder("group/of-a-tree");
    let group = group.unwrap_or(plain);
    let mut stdin = process.take_stdin().unwrap();
    let line = format!("{}\n", group.display());
    stdin.write_all(line.as_bytes()).await.unwrap();
    let member = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    (process, member)
}

#[tokio::test]
async fn a_start_goes_on_without_a_group_that_cannot_be_made_or_joined() {
    for obstacle in ["removed", "of threads"] {
        let fixture = GroupedFixture::open().await;
        if let Some(groups) = &fixture.groups {
            match obstacle {
                "removed" => fs::remove_dir(groups.path()).unwrap(),
                _ => fs::write(groups.path().join("cgroup.type"), "threaded").unwrap(),
            }
        }

        let (process, _) = fixture
            .started("echo ready; setsid sleep 1000 & exec sleep 1000", LONG, 1)
            .await;

        assert_eq!(fixture.group_of(&*process), None, "{obstacle}");
        process.terminate().await.unwrap();
        if let Some(groups) = &fixture.groups
            && obstacle == "removed"
        {
            fs::create_dir(groups.path()).unwrap();
        }
        fixture.close().await;
    }
}

#[tokio::test]
async fn groups_of_a_dead_owner_are_found_by_their_name_and_ended() {
    let fixture = GroupedFixture::open().await;
    let (process, _) = fixture
        .started(
            "trap '' TERM; echo ready; while :; do sleep 0.05; done",
            SHORT,
            1,
        )
        .await;
    let siblings = ControlGroups::siblings();
    if let Some(groups) = &fixture.groups {
        // given the groups as another process finds them
        let found = siblings
            .iter()
            .find(|sibling| sibling.name() == groups.name())
            .unwrap();
        assert_eq!(found.path(), groups.path());
        assert!(found.is_populated().unwrap());

        // when they are ended
        let (found, patience) = (ControlGroups::make(found.name()).unwrap(), PATIENCE);
        let ended = tokio::task::spawn_blocking(move || found.end(patience));
        ended.await.unwrap().unwrap();

        // then the tree was killed, and a second end finds nothing to do
        assert_eq!(process.done().await.signal(), Some(9));
        process.wait_for_exit().await.unwrap();
        groups.end(PATIENCE).unwrap();
        assert!(!groups.is_populated().unwrap());
        fs::create_dir(groups.path()).unwrap();
    } else {
        process.terminate().await.unwrap();
    }
    fixture.close().await;
}
