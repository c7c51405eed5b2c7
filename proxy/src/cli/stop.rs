//! `lspool stop`: the end of the daemon, or of one server.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{code, connect_face, failed, not_attached};
use crate::defaults::{ACKNOWLEDGEMENT_TIMEOUT, END_TIMEOUT};
use crate::face::attach::stop_daemon;
use crate::face::client::{CallError, MethodClient};
use crate::face::{AttachError, How};
use crate::standard_streams::complain;

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// End this server alone, by its id in `lspool status`; its clients keep their connection.
    #[arg(value_name = "INSTANCE", conflicts_with = "force")]
    instance: Option<String>,
    /// End the daemon although editors are attached.
    #[arg(long)]
    force: bool,
}

/// 0 when it has ended, also where no daemon ran; 1 when it was refused or there is no such server.
pub(super) fn run(arguments: &StopArgs) -> ExitCode {
    match &arguments.instance {
        Some(instance) => stop_instance(instance),
        None => stop_all(arguments.force),
    }
}

fn stop_all(force: bool) -> ExitCode {
    match stop_daemon(force) {
        Ok(()) => ExitCode::from(code::DONE),
        Err(AttachError::NotRunning) => {
            complain("lspool: no daemon is running");
            ExitCode::from(code::DONE)
        }
        Err(AttachError::Refused { message, .. }) => {
            complain(&format!("lspool: {message}"));
            ExitCode::from(code::NEGATIVE)
        }
        Err(error) => not_attached(&error),
    }
}

fn stop_instance(instance: &str) -> ExitCode {
    match ask(instance) {
        Ok(()) => ExitCode::from(code::DONE),
        Err(CallError::Attach(AttachError::NotRunning)) => {
            complain("lspool: no daemon is running");
            ExitCode::from(code::NEGATIVE)
        }
        Err(error) => failed(&error, |_| code::NEGATIVE),
    }
}

fn ask(instance: &str) -> Result<(), CallError> {
    let mut client = MethodClient::open(
        connect_face(),
        How::SharedIfRunning,
        ACKNOWLEDGEMENT_TIMEOUT,
    )?;
    let answer = client.call(
        "lspool/stop",
        &json!({ "instance": instance }),
        Some(END_TIMEOUT),
    );
    client.close();
    answer.map(drop)
}
