//! One attachment on the daemon's side, from its hello to its exit code.
//!
//! The control socket is the client's life: its end severs the session's streams at once, whatever became of the pipes
//! behind them. Lines for the person go back over it, bounded: a face that does not read loses lines, never time of
//! anybody else.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::unistd::geteuid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::host::{Attached, Host, NotRegistered};
use super::streams::{self, Input, Output, StreamError};
use crate::defaults::{
    FAREWELL_TIMEOUT, HELLO_TIMEOUT, MAX_NOTICE_BYTES, NOTICE_QUEUE, SOCKET_PROTOCOL,
};
use crate::hello::descriptors::{self, ReceivedHello};
use crate::hello::{Hello, HelloFace, OsText, RefusalCode, Reply};
use crate::local::processes::{self, ProcessEntry};
use crate::serve::Session;
use lspool_pool::Notice;

/// Why a connection got no session.
struct Refusal {
    code: RefusalCode,
    message: String,
}

impl Refusal {
    fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Serves one connection to its end. Never fails: what goes wrong is told to the peer or logged.
pub(crate) async fn serve(control: UnixStream, host: Arc<Host>) {
    let mut control = control;
    let received = tokio::select! {
        received = receive(&control) => received,
        // Turned away without a word: the face starts or finds the next daemon.
        () = host.left() => return,
    };
    let outcome = match received {
        Ok(Some((hello, descriptors, peer))) => {
            dispatch(&mut control, &host, hello, descriptors, peer).await
        }
        Ok(None) => return,
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = outcome {
        tracing::warn!(code = ?refusal.code, message = refusal.message, "refused a connection");
        let reply = Reply::Refused {
            code: refusal.code,
            message: refusal.message,
        };
        let _ = timeout(FAREWELL_TIMEOUT, control.write_all(&reply.encode())).await;
    }
}

/// Judges the peer and reads its hello; `None` when the peer only looked whether somebody listens.
async fn receive(control: &UnixStream) -> Result<Option<(Hello, Vec<OwnedFd>, u32)>, Refusal> {
    let peer = control.peer_cred().map_err(|error| {
        Refusal::new(
            RefusalCode::PeerRefused,
            format!("the peer is not known: {error}"),
        )
    })?;
    if peer.uid() != geteuid().as_raw() {
        return Err(Refusal::new(
            RefusalCode::PeerRefused,
            format!(
                "this daemon serves user {} and you are user {}",
                geteuid(),
                peer.uid()
            ),
        ));
    }
    let received = timeout(HELLO_TIMEOUT, descriptors::receive(control))
        .await
        .map_err(|_| {
            Refusal::new(
                RefusalCode::HelloInvalid,
                format!("no hello came within {} s", HELLO_TIMEOUT.as_secs()),
            )
        })?;
    let ReceivedHello { body, descriptors } = match received {
        Ok(received) => received,
        Err(crate::hello::HelloError::Io(_)) => return Ok(None),
        Err(error) => return Err(Refusal::new(RefusalCode::HelloInvalid, error.to_string())),
    };
    check_protocol(&body)?;
    let hello = Hello::decode(&body)
        .map_err(|error| Refusal::new(RefusalCode::HelloInvalid, error.to_string()))?;
    let pid = peer.pid().map_or(hello.pid, i32::cast_unsigned);
    Ok(Some((hello, descriptors, pid)))
}

/// Judges the version before the rest is decoded, which another version may have written otherwise.
fn check_protocol(body: &[u8]) -> Result<(), Refusal> {
    #[derive(serde::Deserialize)]
    struct Version {
        protocol: u32,
    }
    match serde_json::from_slice(body) {
        Ok(Version {
            protocol: SOCKET_PROTOCOL,
        }) => Ok(()),
        Ok(Version { protocol }) => Err(Refusal::new(
            RefusalCode::ProtocolMismatch,
            format!(
                "the daemon speaks protocol {SOCKET_PROTOCOL} and this face {protocol}; `lspool stop` ends the daemon"
            ),
        )),
        Err(error) => Err(Refusal::new(
            RefusalCode::HelloInvalid,
            format!("the hello cannot be read: {error}"),
        )),
    }
}

async fn dispatch(
    control: &mut UnixStream,
    host: &Arc<Host>,
    hello: Hello,
    descriptors: Vec<OwnedFd>,
    peer: u32,
) -> Result<(), Refusal> {
    if let HelloFace::Stop { force } = hello.face {
        return stop(control, host, force).await;
    }
    if let HelloFace::Harness {
        world: Some(world), ..
    } = &hello.face
        && world != "local"
    {
        let message = format!("there is no world {world}; this lspool has `local`");
        return Err(Refusal::new(RefusalCode::WorldUnsupported, message));
    }
    let gone = CancellationToken::new();
    let (input, output) = open_streams(descriptors, &gone)?;
    let who = describe(&hello, peer);
    let registration = match host.register(who.clone()) {
        Ok(registration) => registration,
        Err(NotRegistered::Leaving) => return Ok(()),
        Err(NotRegistered::Full) => {
            return Err(Refusal::new(
                RefusalCode::LimitExceeded,
                format!(
                    "{} connections are attached, which is the limit (limits.connections)",
                    host.settings.numbers.connections
                ),
            ));
        }
    };
    if control.write_all(&accepted().encode()).await.is_err() {
        return Ok(());
    }
    run_session(
        control,
        host,
        (hello, peer, who.name),
        (input, output),
        &gone,
    )
    .await;
    drop(registration);
    Ok(())
}

fn open_streams(
    descriptors: Vec<OwnedFd>,
    gone: &CancellationToken,
) -> Result<(Input, Output), Refusal> {
    let Ok([input, output]) = <[OwnedFd; 2]>::try_from(descriptors) else {
        return Err(Refusal::new(
            RefusalCode::HelloInvalid,
            "a session needs exactly two descriptors",
        ));
    };
    let refuse = |error: StreamError| Refusal::new(RefusalCode::StreamRefused, error.to_string());
    Ok((
        streams::input(input, gone).map_err(refuse)?,
        streams::output(output, gone).map_err(refuse)?,
    ))
}

async fn run_session(
    control: &mut UnixStream,
    host: &Arc<Host>,
    (hello, peer, name): (Hello, u32, String),
    (input, output): (Input, Output),
    gone: &CancellationToken,
) {
    let (control_input, control_output) = control.split();
    let (notices, lines) = mpsc::channel(NOTICE_QUEUE);
    if let Some(remark) = host.configuration_remark().await {
        // The queue is empty, so there is room.
        let _ = notices.try_send(Notice(remark));
    }
    let over = CancellationToken::new();
    let session = async {
        let code = host
            .serving
            .attach(
                host,
                Session {
                    hello,
                    peer,
                    name,
                    input,
                    output,
                    gone: gone.clone(),
                    notices,
                },
            )
            .await;
        over.cancel();
        code
    };
    let (code, control_output, ()) = tokio::join!(
        session,
        send_notices(control_output, lines, &over),
        watch_control(control_input, gone, &over),
    );
    if let Some(mut control_output) = control_output {
        let farewell = Reply::Exit { code }.encode();
        let _ = timeout(FAREWELL_TIMEOUT, control_output.write_all(&farewell)).await;
    }
}

/// Writes the person's lines until the session is over; the half comes back unless a line could not be finished.
async fn send_notices<'a>(
    mut control: WriteHalf<'a>,
    mut lines: mpsc::Receiver<Notice>,
    over: &CancellationToken,
) -> Option<WriteHalf<'a>> {
    loop {
        let line = tokio::select! {
            biased;
            line = lines.recv() => line,
            () = over.cancelled() => None,
        };
        let Some(Notice(mut text)) = line else { break };
        text.truncate(text.floor_char_boundary(MAX_NOTICE_BYTES));
        let line = Reply::Notice { text }.encode();
        // A face that is stopped does not read; once its session is over it has a moment to take this line.
        let abandon = async {
            over.cancelled().await;
            tokio::time::sleep(FAREWELL_TIMEOUT).await;
        };
        let written = tokio::select! {
            written = control.write_all(&line) => written.is_ok(),
            () = abandon => false,
        };
        if !written {
            // The socket is broken or holds half a line, so nothing more can be said on it.
            return None;
        }
    }
    over.cancelled().await;
    Some(control)
}

/// Waits for the end of the control socket, which is the end of the client.
async fn watch_control(
    mut control: ReadHalf<'_>,
    gone: &CancellationToken,
    over: &CancellationToken,
) {
    let mut ignored = [0_u8; 64];
    let ended = async {
        // A later protocol may say something here; this one does not.
        while matches!(control.read(&mut ignored).await, Ok(count) if count > 0) {}
    };
    tokio::select! {
        () = ended => gone.cancel(),
        () = over.cancelled() => {}
    }
}

async fn stop(control: &mut UnixStream, host: &Host, force: bool) -> Result<(), Refusal> {
    let parting = host
        .leave_unless_attached(force)
        .map_err(|message| Refusal::new(RefusalCode::EditorsAttached, message))?;
    // Whoever waits learns that the daemon heard, however long its servers take.
    let _ = timeout(FAREWELL_TIMEOUT, control.write_all(&accepted().encode())).await;
    // This one waits for the end itself.
    drop(parting);
    host.ended().await;
    let _ = timeout(
        FAREWELL_TIMEOUT,
        control.write_all(&Reply::Exit { code: 0 }.encode()),
    )
    .await;
    Ok(())
}

fn accepted() -> Reply {
    Reply::Accepted {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn describe(hello: &Hello, peer: u32) -> Attached {
    let (face, program) = match &hello.face {
        HelloFace::Server { argv } => ("server", argv.first().map(OsText::to_lossy)),
        HelloFace::Harness { .. } => ("connect", None),
        HelloFace::Stop { .. } => ("stop", None),
    };
    let starter = ProcessEntry::read(peer).map_or(peer, |process| process.parent);
    Attached {
        pid: peer,
        name: processes::name(starter).unwrap_or_else(|| "unknown".to_owned()),
        face,
        program,
    }
}
