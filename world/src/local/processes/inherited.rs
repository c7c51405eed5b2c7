//! Inherited output that goes to the log. Owns the bound on a line: a program that prints none ends a line at it.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use crate::OutputStream;

/// Lines longer than this many bytes are logged in parts.
const LINE_BYTES: u64 = 8 * 1024;

/// Logs a stream line by line until its end, or until `stop`.
pub(super) async fn log_lines(
    pipe: impl AsyncRead + Unpin,
    program: String,
    pid: u32,
    stream: OutputStream,
    stop: CancellationToken,
) {
    let mut reader = BufReader::new(pipe);
    loop {
        let line = tokio::select! {
            biased;
            line = next_line(&mut reader) => line,
            () = stop.cancelled() => None,
        };
        let Some(line) = line else { return };
        tracing::info!(program, pid, ?stream, line, "output");
    }
}

/// The next line without its end; `None` at the end of the stream.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut line = Vec::new();
    match reader.take(LINE_BYTES).read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(
            String::from_utf8_lossy(&line)
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
        ),
    }
}
