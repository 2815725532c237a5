//! `attache import`: adds the memories of an export (`GET /v1/export`).
//!
//! The lines are sent in parts that the server's limits allow. The server skips memories that the account already has, so an interrupted
//! import is repeated from the start.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use client::Client;
use domain::foreign::visible;
use futures_util::StreamExt;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use wire::knowledge::ImportMessage;

use crate::connection::{Remote, failed};
use crate::failure::{Done, Failure, FailureKind};
use crate::terminal::{BAD, GOOD, styled};
use crate::{output, terminal};

/// Maximum number of lines of a part; the server's default limit.
const LINES_MAX: usize = 10_000;

/// Maximum size of a part in bytes, safely below the server's limit of 32 MiB.
const PART_BYTES_MAX: usize = 24 * 1024 * 1024;

/// Maximum size of a line in bytes.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Options of `attache import`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// File of an export, one JSON object per line, or `-` for standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    #[command(flatten)]
    remote: Remote,
}

/// Lines that are sent together.
#[derive(Debug, Default)]
struct Part {
    text: Vec<u8>,
    /// Number of each line in the file, from 1.
    numbers: Vec<u64>,
}

/// Sums and failed lines of all parts.
#[derive(Debug, Default)]
struct Imported {
    created: u64,
    existing: u64,
    failed: Vec<Value>,
}

/// Sends the file and prints the outcome.
pub async fn run(arguments: &Arguments) -> Done {
    let client = arguments.remote.open()?.with_key()?;
    let is_json = arguments.remote.json;
    let mut lines = opened(&arguments.file)?;
    let (mut imported, mut number) = (Imported::default(), 0);
    let waiting = terminal::spinner("importing");
    let sent = loop {
        let part = match next_part(&mut lines, &mut number) {
            Ok(part) if part.numbers.is_empty() => break Ok(()),
            Ok(part) => part,
            Err(failure) => break Err(failure),
        };
        if let Err(failure) = send(&client, part, &waiting, is_json, &mut imported).await {
            break Err(failure.advised("run the same command again: nothing is added twice"));
        }
    };
    waiting.finish_and_clear();
    imported.print(is_json);
    sent?;
    match imported.failed.len() {
        0 => Ok(()),
        1 => Err(Failure::refused("1 line could not be imported")),
        failed => Err(Failure::refused(format!("{failed} lines could not be imported"))),
    }
}

type Lines = Box<dyn BufRead + Send>;

fn opened(file: &Path) -> Result<Lines, Failure> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::not_found(format!("{}: {error}", file.display())),
        _ => Failure::refused(format!("{}: {error}", file.display())),
    });
    Ok(Box::new(BufReader::new(opened?)))
}

/// The next lines that fit one part; none at the end.
fn next_part(lines: &mut Lines, number: &mut u64) -> Result<Part, Failure> {
    let mut part = Part::default();
    while part.numbers.len() < LINES_MAX && part.text.len() < PART_BYTES_MAX - LINE_BYTES_MAX {
        let begin = part.text.len();
        let read = lines.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut part.text);
        let read = read.map_err(|error| Failure::refused(format!("line {}: {error}", *number + 1)))?;
        if read == 0 {
            break;
        }
        *number += 1;
        if read == LINE_BYTES_MAX && !part.text.ends_with(b"\n") {
            return Err(Failure::refused(format!("line {number}: is longer than 8 MiB")));
        }
        if part.text[begin..].trim_ascii().is_empty() {
            part.text.truncate(begin);
        } else {
            part.numbers.push(*number);
        }
    }
    Ok(part)
}

async fn send(
    client: &Client,
    Part { text, numbers }: Part,
    waiting: &ProgressBar,
    is_json: bool,
    imported: &mut Imported,
) -> Done {
    let mut answer = Box::pin(client.import(Bytes::from(text)).await.map_err(failed)?);
    let (mut unread, mut is_complete, mut outcomes) = (Vec::new(), false, 0_u64);
    while let Some(piece) = answer.next().await {
        unread.extend_from_slice(&piece.map_err(failed)?);
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            let message: ImportMessage = serde_json::from_slice(&line)
                .map_err(|error| Failure::refused(format!("the response is not valid for attache: {error}")))?;
            match message {
                ImportMessage::Success { .. } => outcomes += 1,
                ImportMessage::Error { index, error, message } => {
                    outcomes += 1;
                    let place = usize::try_from(index).ok().and_then(|index| numbers.get(index));
                    let failure = json!({ "line": place, "error": error, "message": message });
                    if !is_json {
                        let place = place.map_or_else(|| "a line".to_owned(), |number| format!("line {number}"));
                        let why = format!("{place}: {}: {}", visible(&error), visible(&message));
                        waiting.suspend(|| output::print(&format!("{}  {why}", styled(BAD, "failed"))));
                    }
                    imported.failed.push(failure);
                }
                ImportMessage::Complete { created, existing, .. } => {
                    imported.created += created;
                    imported.existing += existing;
                    is_complete = true;
                }
                ImportMessage::Unknown => {}
            }
            waiting.set_message(format!("importing, {outcomes} of {} lines", numbers.len()));
        }
    }
    if is_complete { Ok(()) } else { Err(Failure::of(FailureKind::Temporary, "the import was interrupted")) }
}

impl Imported {
    fn print(&self, is_json: bool) {
        let Self { created, existing, failed } = self;
        output::show(is_json, &json!({ "created": created, "existing": existing, "failed": failed }), || {
            let mut sums = vec![styled(GOOD, format!("{created} added"))];
            if *existing > 0 {
                sums.push(format!("{existing} were there already"));
            }
            if !failed.is_empty() {
                sums.push(styled(BAD, format!("{} failed", failed.len())));
            }
            sums.join(", ")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_large_as_the_server_takes_and_know_their_lines() {
        let text = format!("{}\n\n{{}}\n", "{}\n".repeat(LINES_MAX));
        let mut lines: Lines = Box::new(io::Cursor::new(text));
        let mut number = 0;
        let first = next_part(&mut lines, &mut number).unwrap();
        assert_eq!((first.numbers.len(), first.numbers.last()), (LINES_MAX, Some(&10_000)));
        let second = next_part(&mut lines, &mut number).unwrap();
        assert_eq!((second.numbers, second.text), (vec![10_003], b"{}\n".to_vec()));
        assert!(next_part(&mut lines, &mut number).unwrap().numbers.is_empty());
        let mut long: Lines = Box::new(io::Cursor::new("x".repeat(LINE_BYTES_MAX + 1)));
        assert!(next_part(&mut long, &mut 0).unwrap_err().reason().contains("line 1: is longer than 8 MiB"));
    }
}
