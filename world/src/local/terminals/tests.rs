//! What no program can be made to do on every machine: a signal that the system refuses, and a process table that cannot
//! be read for a while.

use super::*;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use rustix::io::Errno;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinHandle;

use super::super::InheritedOutput;
use super::super::trees::registry::Registry;
use crate::subprocess::TerminalSignal;
use crate::{Environment, LaunchSpec, SandboxPolicy, ScrubRules};

fn spec() -> TerminalSpec {
    TerminalSpec {
        launch: LaunchSpec {
            argv: vec!["/bin/cat".into()],
            cwd: "/".into(),
            environment: Environment::from_pairs::<OsString, OsString>([]),
            overrides: BTreeMap::new(),
            scrub: true,
            marker: None,
            umask: None,
            sandbox: SandboxPolicy::unconfined(),
        },
        size: TerminalSize {
            rows: 40,
            columns: 160,
        },
        grace: Duration::from_mins(1),
        protects_program: false,
        cancel: CancellationToken::new(),
    }
}

fn options() -> LocalOptions {
    LocalOptions {
        scrub_rules: ScrubRules::builtin(),
        inherited_output: InheritedOutput::OwnStderr,
        control_groups: None,
    }
}

/// A terminal on which a program runs, with the registry that owns it and its supervisor.
fn opened() -> (Arc<Registry>, LocalTerminal, JoinHandle<()>) {
    let registry = Arc::new(Registry::default());
    let place = registry.admit(None).unwrap();
    let (contained, pair) = start::start(&spec(), &options()).unwrap();
    let (terminal, session) = supervise(contained, pair, place, &spec()).unwrap();
    let session = tokio::spawn(session.run());
    (registry, terminal, session)
}

/// Lets this process get no descriptor, so that nothing can be looked at, until it is dropped.
struct NoDescriptors(Rlimit);

impl NoDescriptors {
    /// `None` where other tests run in the same process, whose limit it is.
    fn begin() -> Option<Self> {
        let mode = std::env::var_os("NEXTEST_EXECUTION_MODE")?;
        let before = getrlimit(Resource::Nofile);
        let none = Rlimit {
            current: Some(0),
            maximum: before.maximum,
        };
        (mode == "process-per-test").then(|| {
            setrlimit(Resource::Nofile, none).unwrap();
            Self(before)
        })
    }
}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.0).unwrap();
    }
}

#[tokio::test]
async fn a_live_group_that_cannot_be_signalled_breaks_its_terminal() {
    // given a terminal on which a program runs
    let (registry, terminal, session) = opened();

    // when the system refuses a signal to it
    let send = |device: &Device, owner| {
        foreground::send(device, owner, TerminalSignal::Interrupt, |_, _| {
            Err(Errno::PERM)
        })
    };
    let refused = terminal.run(send).await.unwrap_err();

    // then this and all later calls say so, and the session ends without being asked for
    assert_eq!(refused.code(), "TERMINAL_FAILED");
    assert_eq!(terminal.write(b"x").await, Err(refused.clone()));
    session.await.unwrap();
    assert!(registry.is_empty());
    assert!(terminal.terminate().await.is_ok());
    assert_eq!(terminal.write(b"x").await, Err(refused));
}

#[tokio::test]
async fn a_group_that_has_just_ended_breaks_nothing() {
    let (_registry, terminal, session) = opened();

    let send = |device: &Device, owner| {
        foreground::send(device, owner, TerminalSignal::Interrupt, |_, _| {
            Err(Errno::SRCH)
        })
    };
    let refused = terminal.run(send).await.unwrap_err();

    assert_eq!(refused.code(), "TERMINAL_FAILED");
    assert_eq!(terminal.write(b"x").await, Ok(()));
    terminal.terminate().await.unwrap();
    session.await.unwrap();
}

#[tokio::test]
async fn an_end_that_was_not_proved_can_be_repeated() {
    let (registry, terminal, session) = opened();
    let Some(blind) = NoDescriptors::begin() else {
        return;
    };

    let (one, other) = tokio::join!(terminal.terminate(), terminal.terminate());

    let error = one.unwrap_err();
    assert_eq!(error.code(), "EXEC_UNPROVED");
    assert_eq!(other, Err(error));
    assert!(!registry.is_empty(), "it was given up before its end");
    let refused = terminal.write(b"x").await.unwrap_err();
    assert_eq!(refused.code(), "TERMINAL_CLOSING");

    drop(blind);
    terminal.terminate().await.unwrap();
    session.await.unwrap();
    assert!(registry.is_empty());
}

#[tokio::test]
async fn a_terminal_whose_leftovers_could_not_be_seen_stays_owned() {
    let (registry, terminal, session) = opened();
    let Some(blind) = NoDescriptors::begin() else {
        return;
    };

    // when the program ends by itself, at its end of input
    terminal.write(&[4]).await.unwrap();
    assert_eq!(terminal.done().await.exit_code(), Some(0));

    // then nobody can say that nothing is left
    let error = terminal.terminate().await.unwrap_err();
    assert_eq!(error.code(), "EXEC_UNPROVED");
    assert!(!registry.is_empty(), "it was given up before its end");

    drop(blind);
    assert_eq!(terminal.terminate().await.unwrap().exit_code(), Some(0));
    session.await.unwrap();
    assert!(registry.is_empty());
}
