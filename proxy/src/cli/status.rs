//! `lspool status`: what runs and who is attached, a line each, at most 100 columns wide where all is well.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{code, connect_face, failed, printed};
use crate::defaults::ACKNOWLEDGEMENT_TIMEOUT;
use crate::face::client::{CallError, MethodClient};
use crate::face::{AttachError, How};
use crate::standard_streams::complain;

/// Columns of a line.
const WIDTH: usize = 100;
/// Columns that a root may take before its beginning is cut.
const ROOT_WIDTH: usize = 44;

/// Prints the running daemon's status; 1 when none runs.
pub(super) fn run(as_json: bool) -> ExitCode {
    let status = match ask() {
        Ok(status) => status,
        Err(CallError::Attach(AttachError::NotRunning)) => {
            if as_json {
                return printed(&format!("{}\n", json!({ "daemon": null })), code::NEGATIVE);
            }
            complain("lspool: no daemon is running; it starts when it is needed");
            return ExitCode::from(code::NEGATIVE);
        }
        Err(error) => return failed(&error, |_| code::NEGATIVE),
    };
    if as_json {
        return printed(&format!("{status:#}\n"), code::DONE);
    }
    match serde_json::from_value(status) {
        Ok(status) => printed(&render(&status), code::DONE),
        Err(error) => failed(&CallError::Lost(error.into()), |_| code::NEGATIVE),
    }
}

fn ask() -> Result<Value, CallError> {
    let mut client = MethodClient::open(
        connect_face(),
        How::SharedIfRunning,
        ACKNOWLEDGEMENT_TIMEOUT,
    )?;
    let status = client.call("lspool/status", &json!({}), Some(ACKNOWLEDGEMENT_TIMEOUT));
    client.close();
    status
}

/// The parts of the status that the text shows.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    daemon: Daemon,
    #[serde(default)]
    worlds: Vec<World>,
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct World {
    containment: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Daemon {
    version: String,
    pid: u32,
    uptime_ms: u64,
    configuration: String,
    connections: Vec<Connection>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connection {
    pid: u32,
    name: String,
    face: String,
    program: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Instance {
    id: String,
    server: String,
    state: String,
    readiness: String,
    folders: Vec<String>,
    clients: Vec<String>,
    uptime_ms: u64,
    restarts: u64,
    #[serde(default)]
    memory_bytes: u64,
    last_exit: Option<String>,
    end_failure: Option<String>,
    why_not_shared: Option<String>,
}

fn render(status: &Status) -> String {
    let daemon = &status.daemon;
    let mut lines = vec![format!(
        "daemon {}  process {}  up {}",
        daemon.version,
        daemon.pid,
        duration(daemon.uptime_ms)
    )];
    lines.extend(
        status
            .worlds
            .iter()
            .map(|world| format!("processes are held by: {}", held_by(&world.containment))),
    );
    if daemon.configuration != "in force" {
        lines.push(format!("configuration: {}", daemon.configuration));
    }
    if status.instances.is_empty() {
        lines.push("no server is running".to_owned());
    }
    for instance in &status.instances {
        lines.push(instance_line(instance));
        let remarks = [
            instance.why_not_shared.clone(),
            (instance.restarts > 0).then(|| format!("restarted {} times", instance.restarts)),
            instance.last_exit.clone(),
            instance.end_failure.clone(),
        ];
        lines.extend(
            remarks
                .into_iter()
                .flatten()
                .map(|remark| format!("    {remark}")),
        );
    }
    // The connection that asks is none that anybody wants to hear of.
    let own = std::process::id();
    let others = daemon
        .connections
        .iter()
        .filter(|connection| connection.pid != own);
    lines.extend(others.map(connection_line));
    lines.join("\n") + "\n"
}

/// What holds process trees together, in words.
fn held_by(containment: &str) -> &str {
    match containment {
        "control-group" => "control groups",
        "process-table" => "their groups, parents and marks",
        "group" => "their process groups alone",
        another => another,
    }
}

fn instance_line(instance: &Instance) -> String {
    let root = instance.folders.first().map_or("(no root)", String::as_str);
    let more = match instance.folders.len() {
        0 | 1 => String::new(),
        count => format!(" +{}", count - 1),
    };
    let state = if instance.state == "running" {
        &instance.readiness
    } else {
        &instance.state
    };
    let line = format!(
        "{} {}  {}{more}  {state}  {} client{}  up {}  {} MB",
        instance.id,
        instance.server,
        shortened(root, ROOT_WIDTH),
        instance.clients.len(),
        if instance.clients.len() == 1 { "" } else { "s" },
        duration(instance.uptime_ms),
        instance.memory_bytes / 1_000_000,
    );
    within(line, WIDTH)
}

fn connection_line(connection: &Connection) -> String {
    let program = connection
        .program
        .as_deref()
        .map_or_else(String::new, |program| {
            format!("  {}", shortened(program, ROOT_WIDTH))
        });
    within(
        format!(
            "attached: {}  process {}  {}{program}",
            connection.name, connection.pid, connection.face
        ),
        WIDTH,
    )
}

/// The end of a text, which tells paths apart better than their beginning.
fn shortened(text: &str, width: usize) -> String {
    let text = text.strip_prefix("file://").unwrap_or(text);
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let tail: String = text.chars().skip(count - (width - 1)).collect();
    format!("…{tail}")
}

fn within(line: String, width: usize) -> String {
    if line.chars().count() <= width {
        return line;
    }
    let head: String = line.chars().take(width - 1).collect();
    format!("{head}…")
}

fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn instance() -> Value {
        json!({
            "id": "i1", "server": "rust-analyzer", "state": "running", "readiness": "ready",
            "folders": ["file:///home/somebody/projects/a-project-with-a-rather-long-name/backend"],
            "clients": ["c1", "c2"], "uptimeMs": 3_725_000, "restarts": 0, "memoryBytes": 1_234_567_890,
            "lastExit": null, "whyNotShared": null,
        })
    }

    fn status(instances: &[Value]) -> Status {
        serde_json::from_value(json!({
            "daemon": {
                "version": "0.1.0", "pid": 4711, "uptimeMs": 61_000, "configuration": "in force",
                "connections": [{ "pid": 12, "name": "nvim", "face": "server", "program": "rust-analyzer" }],
            },
            "worlds": [{ "id": "local", "kind": "local", "containment": "control-group" }],
            "instances": instances,
        }))
        .unwrap()
    }

    #[test]
    fn a_healthy_status_fits_a_hundred_columns() {
        let text = render(&status(&[instance()]));
        expect![[r"
            daemon 0.1.0  process 4711  up 1m01s
            processes are held by: control groups
            i1 rust-analyzer  …s/a-project-with-a-rather-long-name/backend  ready  2 clients  up 1h02m  1234 MB
            attached: nvim  process 12  server  rust-analyzer
        "]]
        .assert_eq(&text);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn what_is_not_healthy_is_said_below() {
        let mut instance = instance();
        instance["restarts"] = json!(2);
        instance["lastExit"] = json!("exit code 1");
        instance["folders"] = json!([]);
        instance["state"] = json!("starting");
        instance["clients"] = json!(["c1"]);
        let mut status = status(&[instance]);
        status.daemon.configuration = "CONFIG_INVALID: c.toml:1".to_owned();
        status.daemon.connections.clear();
        expect![[r"
            daemon 0.1.0  process 4711  up 1m01s
            processes are held by: control groups
            configuration: CONFIG_INVALID: c.toml:1
            i1 rust-analyzer  (no root)  starting  1 client  up 1h02m  1234 MB
                restarted 2 times
                exit code 1
        "]]
        .assert_eq(&render(&status));
    }

    #[test]
    fn a_daemon_without_servers_says_so() {
        let text = render(&status(&[]));
        assert!(text.contains("no server is running"), "{text}");
    }
}
