//! `lspool query`: one question from the shell, one-based in and out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lspool_normalize::error::{CommonCode, INVALID_PARAMS, LspCode};
use lspool_normalize::render::{TextOptions, text_for_people};
use lspool_normalize::request::View;
use lspool_normalize::{
    Completeness, Encoding, Operation, Position, QueryRequest, QueryResult, QueryTarget, RpcError,
};
use serde_json::json;

use super::{code, failed, harness_face, printed, usage};
use crate::defaults::{ACKNOWLEDGEMENT_TIMEOUT, ANSWER_RESERVE, MAX_DURATION_MS};
use crate::face::How;
use crate::face::client::{CallError, MethodClient};

/// The arguments of `lspool query`.
#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// What to ask.
    #[arg(value_enum)]
    operation: OperationName,
    /// `FILE:LINE:COLUMN`, counted from 1; with `--symbol` also `FILE` or `FILE:LINE`.
    #[arg(value_name = "FILE:LINE:COL")]
    place: OsString,
    /// Ask about the symbol of this name, on or near the line, or where it stands only once in the file.
    #[arg(long, value_name = "NAME")]
    symbol: Option<String>,
    /// The workspace root; found from the file when it is not given.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print the answer as the protocol has it, counted from 0.
    #[arg(long)]
    json: bool,
    /// Give up after this time: `30s`, `500ms`, `2m`; a bare number is seconds.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u32>,
    /// The unit of columns, read and printed.
    #[arg(long, value_name = "UNIT", default_value = "utf-16", value_parser = parse_columns)]
    columns: Encoding,
    /// Ask about the text that an attached editor holds.
    #[arg(long)]
    editor_text: bool,
    /// Print at most this many places.
    #[arg(long, value_name = "N")]
    max_locations: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OperationName {
    /// Where the symbol is defined.
    Definition,
    /// Everywhere the symbol is used, its declaration included.
    References,
    /// What implements the symbol.
    Implementation,
    /// What the server says about the symbol.
    Hover,
}

/// Asks, prints and answers the exit code.
pub(super) fn run(arguments: &QueryArgs, how: How) -> ExitCode {
    let request = match request(arguments) {
        Ok(request) => request,
        Err(message) => return usage(&message),
    };
    let face = match harness_face(arguments.root.clone(), None) {
        Ok(face) => face,
        Err(message) => return usage(&message),
    };
    match ask(face, how, &request) {
        Ok(result) => match render(arguments, &result) {
            Ok(text) => printed(&text, exit_code(&result)),
            Err(error) => failed(&CallError::Lost(error.into()), code_of),
        },
        Err(error) => failed(&error, code_of),
    }
}

fn ask(
    face: crate::hello::HelloFace,
    how: How,
    request: &QueryRequest,
) -> Result<QueryResult, CallError> {
    let timeout = request
        .timeout_ms
        .map(|milliseconds| Duration::from_millis(milliseconds.into()));
    let patience = timeout.map_or(ACKNOWLEDGEMENT_TIMEOUT, |timeout| {
        timeout.min(ACKNOWLEDGEMENT_TIMEOUT)
    });
    let mut client = MethodClient::open(face, how, patience)?;
    let bound = timeout.map(|timeout| timeout + ANSWER_RESERVE);
    let answer = client
        .call("lspool/query", &json!(request), bound)
        .and_then(|result| {
            serde_json::from_value(result).map_err(|error| CallError::Lost(error.into()))
        });
    client.close();
    answer
}

fn render(arguments: &QueryArgs, result: &QueryResult) -> Result<String, serde_json::Error> {
    if arguments.json {
        return Ok(serde_json::to_string_pretty(result)? + "\n");
    }
    let options = TextOptions {
        operation: arguments.operation.into(),
        columns: arguments.columns,
    };
    Ok(text_for_people(result, options))
}

/// 0 answers, 1 none and complete, 3 not complete. A list that a silent server gave is an answer; an empty one from it
/// proves nothing.
fn exit_code(result: &QueryResult) -> u8 {
    match (result.envelope().completeness, result.is_empty()) {
        (Completeness::Complete | Completeness::Unknown, false) => code::DONE,
        (Completeness::Complete, true) => code::NEGATIVE,
        (Completeness::Partial, _) | (Completeness::Unknown, true) => code::INCOMPLETE,
    }
}

/// The exit code of a failed query: what the person named wrongly is usage, a missing server is its own, and everything
/// else means that there is no complete answer.
fn code_of(error: &RpcError) -> u8 {
    let name = error.data.as_ref().map_or("", |data| data.code.as_ref());
    let is_usage = error.code == INVALID_PARAMS
        || name == CommonCode::LimitExceeded.as_str()
        || matches!(
            LspCode::from_code(name),
            Some(
                LspCode::WorkspaceRequired
                    | LspCode::OutsideWorkspace
                    | LspCode::TokenMismatch
                    | LspCode::SymbolNotFound
                    | LspCode::SymbolAmbiguous
                    | LspCode::PositionOutOfRange
            )
        )
        || name.starts_with("FS_");
    match LspCode::from_code(name) {
        Some(LspCode::Unavailable) => code::SERVER_MISSING,
        _ if is_usage => code::USAGE,
        _ => code::INCOMPLETE,
    }
}

fn request(arguments: &QueryArgs) -> Result<QueryRequest, String> {
    let (file, target) = target(arguments)?;
    if file.is_empty() {
        return Err("the file is missing before the position".to_owned());
    }
    Ok(QueryRequest {
        operation: arguments.operation.into(),
        file: absolute(Path::new(file))?,
        workspace_root: arguments.root.as_deref().map(absolute).transpose()?,
        target,
        view: arguments.editor_text.then_some(View::Editor),
        wait: None,
        timeout_ms: arguments.timeout,
        max_locations: arguments.max_locations,
        cursor: None,
        context_lines: None,
        columns: Some(arguments.columns),
        work_done_token: None,
    })
}

/// The file and what is asked about in it.
fn target(arguments: &QueryArgs) -> Result<(&OsStr, QueryTarget), String> {
    let (rest, last) = split_number(&arguments.place);
    if let Some(name) = &arguments.symbol {
        let target = QueryTarget::Symbol {
            name: name.clone(),
            line: last.map(|line| zero_based(line, "line")).transpose()?,
            occurrence: None,
        };
        return Ok((rest, target));
    }
    let (file, line) = split_number(rest);
    let (Some(line), Some(column)) = (line, last) else {
        return Err(format!(
            "{} has no position; write FILE:LINE:COLUMN, or name a symbol with --symbol",
            arguments.place.display()
        ));
    };
    let target = QueryTarget::Position {
        position: Position::new(zero_based(line, "line")?, zero_based(column, "column")?),
        token: None,
    };
    Ok((file, target))
}

/// Splits a number off the end, behind a colon.
fn split_number(text: &OsStr) -> (&OsStr, Option<u32>) {
    let bytes = text.as_bytes();
    let number = bytes
        .iter()
        .rposition(|byte| *byte == b':')
        .and_then(|colon| {
            let digits = &bytes[colon + 1..];
            let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
            is_number.then_some((colon, number))
        });
    match number {
        Some((colon, number)) => (OsStr::from_bytes(&bytes[..colon]), Some(number)),
        None => (text, None),
    }
}

fn zero_based(number: u32, what: &str) -> Result<u32, String> {
    number
        .checked_sub(1)
        .ok_or_else(|| format!("{what} 0 does not exist; lines and columns are counted from 1"))
}

/// The absolute path against this process's working directory; a path that is not UTF-8 goes as a file URI.
fn absolute(path: &Path) -> Result<String, String> {
    let absolute =
        std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(match absolute.into_os_string().into_string() {
        Ok(text) => text,
        Err(bytes) => bytes
            .into_vec()
            .iter()
            .fold("file://".to_owned(), |mut uri, byte| {
                match byte {
                    b'/' | b'.' | b'-' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                        uri.push(char::from(*byte));
                    }
                    byte => {
                        // Writing to a String cannot fail.
                        let _ = std::fmt::Write::write_fmt(&mut uri, format_args!("%{byte:02X}"));
                    }
                }
                uri
            }),
    })
}

fn parse_duration(text: &str) -> Result<u32, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let scale = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        unit => return Err(format!("`{unit}` is no unit of time; write ms, s or m")),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(scale))
        .filter(|milliseconds| (1..=MAX_DURATION_MS).contains(milliseconds))
        .and_then(|milliseconds| u32::try_from(milliseconds).ok())
        .ok_or_else(|| format!("a time is from 1ms to {MAX_DURATION_MS}ms"))
}

fn parse_columns(text: &str) -> Result<Encoding, String> {
    Encoding::from_columns_name(text)
        .ok_or_else(|| "columns are counted in utf-8, utf-16 or codepoint".to_owned())
}

impl From<OperationName> for Operation {
    fn from(name: OperationName) -> Self {
        match name {
            OperationName::Definition => Self::GoToDefinition,
            OperationName::References => Self::FindReferences,
            OperationName::Implementation => Self::GoToImplementation,
            OperationName::Hover => Self::Hover,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: QueryArgs,
    }

    fn parsed(line: &[&str]) -> Result<QueryRequest, String> {
        let line = std::iter::once(&"query").chain(line);
        request(
            &Line::try_parse_from(line)
                .map_err(|error| error.to_string())?
                .arguments,
        )
    }

    #[test]
    fn a_place_is_one_based_and_the_file_may_hold_colons() {
        let request = parsed(&["definition", "/a:b:3.c:7:2"]).unwrap();
        assert_eq!(request.file, "/a:b:3.c");
        assert_eq!(
            request.target,
            QueryTarget::Position {
                position: Position::new(6, 1),
                token: None
            }
        );
    }

    #[test]
    fn a_symbol_needs_no_line() {
        let target = |line: &[&str]| {
            parsed(&[&["hover", "--symbol", "f"], line].concat())
                .unwrap()
                .target
        };
        let symbol = |line| QueryTarget::Symbol {
            name: "f".to_owned(),
            line,
            occurrence: None,
        };
        assert_eq!(target(&["/a.c"]), symbol(None));
        assert_eq!(target(&["/a.c:3"]), symbol(Some(2)));
    }

    #[test]
    fn what_is_no_place_says_how_to_write_one() {
        for place in ["/a.c", "/a.c:3", "/a.c:3:", "/a.c:3:x", ":3:4"] {
            assert!(parsed(&["hover", place]).is_err(), "{place}");
        }
        let error = parsed(&["hover", "/a.c:0:1"]).unwrap_err();
        assert!(error.contains("counted from 1"), "{error}");
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_duration("30"), Ok(30_000));
        assert_eq!(parse_duration("500ms"), Ok(500));
        assert_eq!(parse_duration("2m"), Ok(120_000));
        for wrong in ["", "0", "1h", "-1", "99999999999999999999", "2147484"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_that_is_not_utf8_goes_as_a_uri() {
        let path = PathBuf::from(OsString::from_vec(b"/a b/\xff.c".to_vec()));
        assert_eq!(absolute(&path).unwrap(), "file:///a%20b/%FF.c");
    }

    #[test]
    fn a_missing_server_and_a_wrong_place_have_their_own_codes() {
        let of = |code| code_of(&RpcError::lsp(code, "", None));
        assert_eq!(of(LspCode::Unavailable), code::SERVER_MISSING);
        assert_eq!(of(LspCode::PositionOutOfRange), code::USAGE);
        assert_eq!(of(LspCode::Timeout), code::INCOMPLETE);
        assert_eq!(
            code_of(&RpcError::failed("FS_NOT_FOUND", false, "", None)),
            code::USAGE
        );
    }
}
