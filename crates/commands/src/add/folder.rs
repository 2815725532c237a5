//! `attache add FOLDER`: adds the text files of a folder; a later run adds only changed files.
//!
//! The digests of added files are stored in `added.json` of the profile's folder. A changed file is added again; the memory of its former
//! content stays. Hidden files and folders, symbolic links and, in a work tree of git, ignored files are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use client::Client;
use domain::Digest;
use domain::ids::UserAccountId;
use domain::memory::{MemoryType, heading, short_title};
use extract::{ExtractSettings, Extractor, RawContent, WorkerCommand};
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;
use wire::knowledge::{BatchRequest, Note};

use super::items::{NOTE_BYTES_MAX, batches_of_notes, count};
use super::report::Report;
use crate::failure::{Done, Failure, FailureKind};
use crate::output;
use crate::profile_folder::ProfileFolder;

/// Extensions of added files, with their media types.
const KNOWN: [(&str, &str); 14] = [
    ("md", "text/markdown"),
    ("markdown", "text/markdown"),
    ("mdx", "text/markdown"),
    ("txt", "text/plain"),
    ("text", "text/plain"),
    ("rst", "text/plain"),
    ("org", "text/plain"),
    ("adoc", "text/plain"),
    ("asciidoc", "text/plain"),
    ("tex", "text/plain"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("xhtml", "text/html"),
    ("pdf", "application/pdf"),
];

/// Maximum number of files of all folders.
const FILES_MAX: usize = 10_000;

/// Maximum size of a file before its text is extracted.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// Maximum depth of folders.
const DEPTH_MAX: usize = 32;

/// File of the profile with the digests of added files.
const ADDED: &str = "added.json";

/// Name of the lock of that file.
const ADDED_LOCK: &str = "added";

/// Client, profile, folders and spaces of one command.
#[derive(Debug)]
pub struct FolderErrand<'e> {
    /// The client, with its key.
    pub client: &'e Client,
    /// The profile's folder.
    pub profile: &'e ProfileFolder,
    /// Folders of the command line.
    pub folders: &'e [PathBuf],
    /// Spaces to add to; `None` is the default space.
    pub spaces: Option<Vec<Uuid>>,
    /// Whether the result is printed as JSON.
    pub is_json: bool,
}

/// The files that were added, by their absolute paths, once for each server and set of spaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct AddedFiles(BTreeMap<String, Vec<AddedFile>>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AddedFile {
    /// Base URL of the knowledge API that it was added to.
    server: String,
    sha256: Digest,
    #[serde(default)]
    spaces: Option<Vec<Uuid>>,
}

impl AddedFiles {
    /// The record of a file that was added to this server and these spaces.
    fn find(&self, path: &str, server: &str, spaces: Option<&Vec<Uuid>>) -> Option<&AddedFile> {
        let records = self.0.get(path)?;
        records.iter().find(|record| record.server == server && record.spaces.as_ref() == spaces)
    }

    /// Replaces that record.
    fn keep(&mut self, path: String, added: AddedFile) {
        let records = self.0.entry(path).or_default();
        records.retain(|record| (&record.server, &record.spaces) != (&added.server, &added.spaces));
        records.push(added);
    }
}

/// A file that is new or has changed.
#[derive(Debug)]
struct Changed {
    path: String,
    added: AddedFile,
    note: Note,
}

/// A file that is left out, with the reason.
#[derive(Debug)]
struct LeftOut(String);

/// The folders among the arguments; `None` if there is none.
pub fn folders(named: &[String]) -> Result<Option<Vec<PathBuf>>, Failure> {
    let is_folder = |name: &&String| !name.contains("://") && Path::new(name.as_str()).is_dir();
    let folders: Vec<PathBuf> = named.iter().filter(is_folder).map(PathBuf::from).collect();
    match folders.len() {
        0 => Ok(None),
        all if all == named.len() => Ok(Some(folders)),
        _ => Err(Failure::of(FailureKind::Usage, "folders and other items are added by separate commands")),
    }
}

/// Adds new and changed files; with `every` repeatedly until Ctrl-C.
pub async fn add(errand: &FolderErrand<'_>, every: Option<Duration>) -> Done {
    let Some(every) = every else { return once(errand, &mut Seen::default(), false).await };
    let mut cache = Seen::default();
    let mut looks = interval(every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watching = async {
        let mut is_first = true;
        loop {
            looks.tick().await;
            if output::is_unread() {
                return Ok(());
            }
            match once(errand, &mut cache, !is_first).await {
                Ok(()) => {}
                // Continue when the server is available again.
                Err(failure) if matches!(failure.kind(), FailureKind::Unreachable | FailureKind::Temporary) => {
                    output::print_error(failure.reason());
                }
                Err(failure) if failure.kind() == FailureKind::Refused && !is_first => {
                    output::print_error(failure.reason());
                }
                Err(failure) => return Err(failure),
            }
            is_first = false;
        }
    };
    tokio::select! {
        ended = watching => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Size and time of the files at the last read, so that unchanged files are not read again, and the printed complaints.
#[derive(Debug, Default)]
struct Seen {
    files: BTreeMap<PathBuf, (u64, std::time::SystemTime)>,
    complaints: BTreeSet<String>,
}

async fn once(errand: &FolderErrand<'_>, seen: &mut Seen, is_quiet: bool) -> Done {
    let _others_wait = errand.profile.lock(ADDED_LOCK)?;
    let mut added: AddedFiles = errand.profile.json(ADDED)?.unwrap_or_default();
    let (mut changed, mut total) = (Vec::new(), 0_usize);
    for folder in errand.folders {
        for path in files_of(folder)? {
            total += 1;
            if total > FILES_MAX {
                return Err(Failure::refused(format!("more than {FILES_MAX} files: add the folders below one by one")));
            }
            match read_if_changed(errand, &added, seen, &path).await {
                Ok(found) => changed.extend(found),
                Err(LeftOut(complaint)) => {
                    if seen.complaints.insert(complaint.clone()) {
                        output::print_to_stderr(&format!("left out: {complaint}"));
                    }
                }
            }
        }
    }
    let mut report = Report::of(errand.client);
    if changed.is_empty() {
        if !is_quiet {
            if errand.is_json {
                report.print(true);
            } else {
                output::print(&format!("nothing to add: {total} files, none of them new or changed"));
            }
        }
        return Ok(());
    }
    let sent = send(errand, changed, &mut added, &mut report).await;
    report.print(errand.is_json);
    sent?;
    report.judge()
}

/// Sends the files batch by batch, and stores after each batch which files were added.
async fn send(errand: &FolderErrand<'_>, changed: Vec<Changed>, known: &mut AddedFiles, report: &mut Report) -> Done {
    let (notes, mut files): (Vec<Note>, Vec<(String, AddedFile)>) =
        changed.into_iter().map(|changed| (changed.note, (changed.path, changed.added))).unzip();
    for batch in batches_of_notes(notes) {
        let rest = files.split_off(count(&batch).min(files.len()));
        let request = BatchRequest { spaces: errand.spaces.clone(), ..batch };
        let failures = report.failed.len();
        super::add(errand.client, std::slice::from_ref(&request), errand.is_json, report).await?;
        let failed: BTreeSet<u64> = report.failed[failures..].iter().filter_map(|failed| failed.index).collect();
        for (_, (path, added)) in (0..).zip(files).filter(|(index, _)| !failed.contains(index)) {
            known.keep(path, added);
        }
        known.0.retain(|path, _| Path::new(path).exists());
        errand.profile.write_json(ADDED, known)?;
        files = rest;
    }
    Ok(())
}

/// The note of a file, unless its content was added before.
async fn read_if_changed(
    errand: &FolderErrand<'_>,
    known: &AddedFiles,
    seen: &mut Seen,
    path: &Path,
) -> Result<Option<Changed>, LeftOut> {
    let named = path.display().to_string();
    let unreadable = |error: std::io::Error| LeftOut(format!("{named}: {error}"));
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        // Deleted since the folder was listed.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let stamp = (about.len(), about.modified().map_err(unreadable)?);
    if about.len() > FILE_BYTES_MAX {
        return Err(LeftOut(format!("{named}: is larger than 10 MiB")));
    }
    let added_before = known.find(&named, errand.client.rag_url(), errand.spaces.as_ref());
    if added_before.is_some() && seen.files.get(path) == Some(&stamp) {
        return Ok(None);
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    let sha256 = Digest::of(&bytes);
    if added_before.is_some_and(|added| added.sha256 == sha256) {
        seen.files.insert(path.to_owned(), stamp);
        return Ok(None);
    }
    let note = note_of(path, bytes).await.map_err(|why| LeftOut(format!("{named}: {why}")))?;
    seen.files.insert(path.to_owned(), stamp);
    let server = errand.client.rag_url().to_owned();
    Ok(Some(Changed { path: named, added: AddedFile { server, sha256, spaces: errand.spaces.clone() }, note }))
}

/// A note from a file of a known type. A sandboxed process of this program reads pages and PDFs.
pub async fn note_of(path: &Path, bytes: Vec<u8>) -> Result<Note, String> {
    let media_type = media_type(path).ok_or_else(|| "is not of a known type".to_owned())?;
    let name = || path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (title, content, kind) = if media_type.starts_with("text/") && media_type != "text/html" {
        let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())?;
        (heading(&text), text, None)
    } else {
        let extracted = extracted(media_type, bytes).await?;
        (extracted.title, extracted.markdown, Some(MemoryType::Document))
    };
    if content.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    if content.contains('\0') {
        return Err("is not text".to_owned());
    }
    if content.len() > NOTE_BYTES_MAX {
        return Err("has more than 1 MiB of text, the maximum size of a note; split it".to_owned());
    }
    let title = title.or_else(name).and_then(|title| short_title(&title));
    Ok(Note { content, title, kind })
}

async fn extracted(media_type: &str, bytes: Vec<u8>) -> Result<extract::Extracted, String> {
    let command = WorkerCommand::of_this_program().map_err(|error| error.to_string())?;
    let extractor = Extractor::new(command, ExtractSettings::default());
    // The extraction shares its capacity by account; here is only one.
    let account: UserAccountId = "local".parse().map_err(|error| format!("{error}"))?;
    let source = RawContent { media_type: media_type.to_owned(), charset: None, url: None, body: Bytes::from(bytes) };
    extractor.extract(source, &account).await.map_err(|error| domain::reasons(&error))
}

/// The media type of a file by its extension; `None` for files that are not added.
pub fn media_type(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    KNOWN.iter().find(|(known, _)| *known == extension).map(|(_, media_type)| *media_type)
}

/// The files of known types below a folder, sorted, with absolute paths.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| Failure::not_found(format!("{}: {error}", folder.display()));
    let root = fs::canonicalize(folder).map_err(unreadable)?;
    let mut files = Vec::new();
    walk(&root, 0, &mut files).map_err(unreadable)?;
    if let Some(wanted) = not_ignored(&root) {
        files.retain(|file| wanted.contains(file));
    }
    files.sort();
    Ok(files)
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if entry.file_name().to_string_lossy().starts_with('.') || files.len() > FILES_MAX {
            continue;
        }
        if kind.is_dir() && depth < DEPTH_MAX {
            // A folder that may not be read is left out.
            let _ = walk(&path, depth + 1, files);
        } else if kind.is_file() && media_type(&path).is_some() {
            files.push(path);
        }
    }
    Ok(())
}

/// The files that git does not ignore; `None` outside a work tree, without git, or if git ignores all files.
fn not_ignored(root: &Path) -> Option<BTreeSet<PathBuf>> {
    let mut git = Command::new("git");
    // git must not start a program from the configuration of the folder.
    git.args(["-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.current_dir(root).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let names = output.status.success().then_some(output.stdout)?;
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let files: BTreeSet<PathBuf> = names.map(|name| root.join(String::from_utf8_lossy(name).as_ref())).collect();
    // A completely ignored folder was named on purpose.
    (!files.is_empty()).then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_chosen_by_their_extension_and_hidden_ones_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("b.md", "b"), ("a.TXT", "a"), ("c.rs", "c"), (".d.md", "d"), ("e", "e")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::create_dir_all(folder.path().join(".git-not/x")).unwrap();
        fs::write(folder.path().join(".git-not/x/f.md"), "f").unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/g.html"), "g").unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let files = files_of(folder.path()).unwrap();
        let names: Vec<&Path> = files.iter().map(|file| file.strip_prefix(&root).unwrap()).collect();
        assert_eq!(names, ["a.TXT", "b.md", "below/g.html"].map(Path::new));
    }

    #[test]
    fn folders_and_files_are_not_mixed() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().display().to_string();
        assert_eq!(folders(std::slice::from_ref(&name)).unwrap(), Some(vec![PathBuf::from(&name)]));
        assert_eq!(folders(&["https://example.com/".to_owned()]).unwrap(), None);
        assert_eq!(folders(&[name, "a.md".to_owned()]).unwrap_err().kind(), FailureKind::Usage);
    }
}
