//! Converts the arguments of `attache add` to batches.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use domain::memory::{heading, short_title};
use wire::knowledge::{BatchRequest, Note};

use crate::failure::Failure;

/// Maximum number of items per batch; the server's default limit.
const ITEMS_MAX: usize = 600;

/// Maximum size of a note in bytes; the server's default limit.
pub const NOTE_BYTES_MAX: usize = 1024 * 1024;

/// Maximum size in bytes of the notes of one batch as JSON, safely below the server's limit of 32 MiB.
const BATCH_BYTES_MAX: usize = 24 * 1024 * 1024;

/// URLs and notes in the order of the arguments.
#[derive(Debug, Default)]
pub struct Items {
    urls: Vec<String>,
    notes: Vec<Note>,
}

/// Reads all files and lists; fails with all mistakes at once.
pub fn gather(named: &[String], list: Option<&Path>, title: Option<&str>) -> Result<Items, Failure> {
    let (mut items, mut mistakes) = (Items::default(), Vec::new());
    if let Some(list) = list {
        match fs::read_to_string(list) {
            Ok(text) => items.urls.extend(addresses(&text)),
            Err(error) => mistakes.push(format!("{}: {error}", list.display())),
        }
    }
    for name in named {
        if is_address(name) {
            items.urls.push(name.clone());
            continue;
        }
        match if name == "-" { read(name, io::stdin()) } else { file(name) } {
            Ok(note) => items.notes.push(note),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if let Some(title) = title {
        match items.notes.as_mut_slice() {
            [note] => note.title = Some(title.to_owned()),
            _ => mistakes.push("--title requires a single note, from a file or standard input".to_owned()),
        }
    }
    if mistakes.is_empty() && items.urls.is_empty() && items.notes.is_empty() {
        mistakes.push("the list contains no URL".to_owned());
    }
    if mistakes.is_empty() {
        Ok(items)
    } else {
        Err(Failure::refused(format!("nothing was added:\n  {}", mistakes.join("\n  "))))
    }
}

/// Splits the items into batches within the server's limits: URLs first, then notes.
pub fn batches(items: Items) -> impl Iterator<Item = BatchRequest> {
    let mut batches = vec![BatchRequest::default()];
    let mut bytes = 0;
    for url in items.urls {
        if batches.last().is_none_or(|batch| count(batch) >= ITEMS_MAX) {
            batches.push(BatchRequest::default());
        }
        if let Some(batch) = batches.last_mut() {
            batch.urls.get_or_insert_default().push(url);
        }
    }
    for note in items.notes {
        let size = serde_json::to_vec(&note).map_or(0, |json| json.len());
        if batches.last().is_none_or(|batch| count(batch) >= ITEMS_MAX) || bytes + size > BATCH_BYTES_MAX {
            batches.push(BatchRequest::default());
            bytes = 0;
        }
        bytes += size;
        if let Some(batch) = batches.last_mut() {
            batch.contents.get_or_insert_default().push(note);
        }
    }
    batches.into_iter()
}

/// Batches of only notes, in their order.
pub fn batches_of_notes(notes: Vec<Note>) -> impl Iterator<Item = BatchRequest> {
    batches(Items { urls: Vec::new(), notes })
}

/// Number of URLs and notes of a batch.
pub fn count(batch: &BatchRequest) -> usize {
    batch.urls.as_ref().map_or(0, Vec::len) + batch.contents.as_ref().map_or(0, Vec::len)
}

fn is_address(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| matches!(scheme.as_str(), "http" | "https"))
}

fn addresses(list: &str) -> impl Iterator<Item = String> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
}

fn file(name: &str) -> Result<Note, String> {
    let path = Path::new(name);
    let opened = fs::File::open(path).and_then(|file| Ok((file.metadata()?.is_dir(), file)));
    let (is_folder, file) = opened.map_err(|error| {
        let advice = if name.contains('.') && !path.exists() { "; URLs begin with https://" } else { "" };
        format!("{name}: {error}{advice}")
    })?;
    if is_folder {
        return Err(format!("{name}: is a folder; add it by a command of its own"));
    }
    let mut note = read(name, file)?;
    let named = || path.file_name().map(|name| name.to_string_lossy().into_owned());
    note.title = heading(&note.content).or_else(named).and_then(|title| short_title(&title));
    Ok(note)
}

fn read(name: &str, from: impl Read) -> Result<Note, String> {
    let name = if name == "-" { "standard input" } else { name };
    let mut bytes = Vec::new();
    let read = from.take(NOTE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() > NOTE_BYTES_MAX {
        return Err(format!("{name}: is larger than 1 MiB, the maximum size of a note; split it"));
    }
    let content = String::from_utf8(bytes).map_err(|_| format!("{name}: is not UTF-8 text"))?;
    if content.contains('\0') {
        return Err(format!("{name}: is not text"));
    }
    if content.trim().is_empty() {
        return Err(format!("{name}: is empty"));
    }
    Ok(Note { content, title: None, kind: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(bytes: usize) -> Note {
        Note { content: "x".repeat(bytes), title: None, kind: None }
    }

    #[test]
    fn batches_are_as_large_as_the_server_takes_and_no_larger() {
        let urls = (0..601).map(|nth| format!("https://example.com/{nth}")).collect();
        let items = Items { urls, notes: vec![note(1); 1200] };
        let counts: Vec<usize> = batches(items).map(|batch| count(&batch)).collect();
        assert_eq!(counts, [600, 600, 600, 1]);
        let items = Items { urls: vec!["https://example.com/".into()], notes: vec![note(NOTE_BYTES_MAX); 25] };
        let batches: Vec<BatchRequest> = batches(items).collect();
        assert_eq!(batches.iter().map(count).sum::<usize>(), 26);
        assert!(batches.iter().all(|batch| serde_json::to_vec(batch).unwrap().len() < 32 * 1024 * 1024));
    }

    #[test]
    fn a_list_has_an_address_on_each_line() {
        let list = "# mine\nhttps://example.com/a\n\n  https://example.com/b  \n";
        assert_eq!(addresses(list).collect::<Vec<_>>(), ["https://example.com/a", "https://example.com/b"]);
        assert!(is_address("HTTPS://example.com") && !is_address("example.com") && !is_address("ftp://example.com"));
    }
}
