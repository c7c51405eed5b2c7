//! Where this process's own control group lies: the mount of the unified hierarchy (cgroups(7)), and the group's place in
//! it. Pure over the texts of `/proc`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A mount of the unified hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// The folder of the hierarchy that is mounted.
    root: PathBuf,
    /// Where it is mounted.
    point: PathBuf,
}

/// The folder of this process's own group; `None` where no unified hierarchy is mounted that has it. Blocks.
pub(super) fn own_folder() -> Option<PathBuf> {
    let group = own_path(&fs::read("/proc/self/cgroup").ok()?)?;
    let mounts = mounts(&fs::read("/proc/self/mountinfo").ok()?);
    mounts.iter().rev().find_map(|mount| folder(mount, &group))
}

/// The path of a process's group in the unified hierarchy, from its `/proc/PID/cgroup`. A process that has ended keeps
/// it until it is reaped.
pub(super) fn own_path(groups: &[u8]) -> Option<PathBuf> {
    let mut lines = groups.split(|byte| *byte == b'\n');
    let path = lines.find_map(|line| line.strip_prefix(b"0::"))?;
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// The mounts of the unified hierarchy, from `/proc/PID/mountinfo` (`proc_pid_mountinfo(5)`).
fn mounts(table: &[u8]) -> Vec<Mount> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(mount)
        .collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let root = fields.nth(3)?;
    let point = fields.next()?;
    // A number of optional fields is closed by a hyphen; the type of the file system follows.
    fields.find(|field| *field == b"-")?;
    (fields.next()? == b"cgroup2").then(|| Mount {
        root: unescaped(root),
        point: unescaped(point),
    })
}

/// A path of the table, in which blanks, tabs, line ends and backslashes stand as a backslash with three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(escaped) = escape(rest) {
            bytes.push(escaped);
            rest = &rest[4..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// The byte that an escape at the beginning stands for.
fn escape(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"\\")?.get(..3)?;
    let digits = digits
        .iter()
        .all(|digit| (b'0'..=b'7').contains(digit))
        .then_some(digits)?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// The folder in which a mount shows a group; `None` for one that lies outside of what is mounted.
fn folder(mount: &Mount, group: &Path) -> Option<PathBuf> {
    let below = group.strip_prefix(&mount.root).ok()?;
    let is_plain = |path: &Path| {
        path.components()
            .all(|part| !matches!(part, std::path::Component::ParentDir))
    };
    // A root or a group above the own namespace is shown with `..`, and is not to be reached through this mount.
    (is_plain(group) && mount.point.is_absolute()).then(|| mount.point.join(below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(groups: &str, mountinfo: &str) -> Option<PathBuf> {
        let group = own_path(groups.as_bytes())?;
        mounts(mountinfo.as_bytes())
            .iter()
            .rev()
            .find_map(|mount| folder(mount, &group))
    }

    #[test]
    fn the_own_group_is_found_in_each_kind_of_machine() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
        let hybrid = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        let bound = "50 1 0:26 /docker/abc /sys/fs/cgroup ro master:9 shared:2 - cgroup2 cgroup rw";
        let odd = "60 1 0:26 / /run/a\\040b\\134c rw - cgroup2 none rw";
        for (groups, mountinfo, folder) in [
            (
                "0::/user.slice/a.scope\n",
                unified,
                Some("/sys/fs/cgroup/user.slice/a.scope"),
            ),
            (
                "4:memory:/x\n0::/\n",
                hybrid,
                Some("/sys/fs/cgroup/unified"),
            ),
            ("0::/docker/abc/sub\n", bound, Some("/sys/fs/cgroup/sub")),
            ("0::/elsewhere\n", bound, None),
            ("0::/../outside\n", unified, None),
            ("4:memory:/x\n", hybrid, None),
            ("0::/a b (deleted)\n", odd, Some("/run/a b\\c/a b")),
        ] {
            let folder = folder.map(PathBuf::from);
            assert_eq!(found(groups, mountinfo), folder, "{groups}{mountinfo}");
        }
    }

    proptest! {
        #[test]
        fn any_tables_are_answered_without_a_panic(
            groups in proptest::collection::vec(any::<u8>(), 0..60),
            mountinfo in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let group = own_path(&groups);
            for mount in mounts(&mountinfo) {
                if let Some(group) = &group {
                    let _ = folder(&mount, group);
                }
            }
        }

        #[test]
        fn an_escaped_path_is_read_as_it_was(path in proptest::collection::vec(1u8..=255, 1..20)) {
            let mut escaped = Vec::new();
            for byte in &path {
                if b" \t\n\\".contains(byte) {
                    escaped.extend(format!("\\{byte:03o}").bytes());
                } else {
                    escaped.push(*byte);
                }
            }
            let line = [b"1 2 3:4 / ", &escaped[..], b" rw - cgroup2 x rw"].concat();
            let read = mount(&line).map(|mount| mount.point.into_os_string().into_vec());
            prop_assert_eq!(read, Some(path));
        }
    }
}
