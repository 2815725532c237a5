//! Writes the files of a tool with a backup of each, records each addition, and undoes it.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use domain::Digest;
use domain::tool::Tool;
use serde::{Deserialize, Serialize};

use super::edit::{self, FileAddition, Syntax};
use super::tool_files::{Scope, ToolFile};
use crate::failure::{Done, Failure};
use crate::profile_folder::ProfileFolder;
use crate::replacement::{inside, replace_file};

/// The changes that were written for a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRecord {
    /// The files, in the order in which they were written.
    pub files: Vec<WrittenFile>,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Absolute path.
    pub path: PathBuf,
    /// Syntax of the file.
    pub syntax: Syntax,
    /// Name of the backup in the profile's folder; `None` if the file did not exist.
    pub backup: Option<String>,
    /// SHA-256 of the file as it was written.
    pub sha256: Digest,
    /// Additions to the file.
    pub added: Vec<FileAddition>,
    /// Folder that the file's links must not lead out of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Folders that were created for the file, the outer ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<PathBuf>,
}

/// A change of a file that is not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Absolute path.
    pub path: PathBuf,
    /// Folder that the file's links must not lead out of.
    pub project: Option<PathBuf>,
    /// Syntax of the file.
    pub syntax: Syntax,
    /// The text now; `None` if there is no file.
    pub now: Option<String>,
    /// The text before attache changed it; `None` if there was no file.
    pub before: Option<String>,
    /// The text afterwards.
    pub after: String,
    /// Additions to `before`.
    pub added: Vec<FileAddition>,
}

/// Result of undoing the changes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// It has its former content.
    Restored,
    /// It did not exist before, and is deleted.
    Deleted,
    /// It was changed since: the additions are removed, except the listed parts, which other programs changed.
    Edited(Vec<String>),
    /// It no longer exists.
    Absent,
}

/// Name of the record of a tool in the profile's folder.
pub fn record_name(tool: Tool, scope: Scope, project: &Path) -> String {
    match scope {
        Scope::User => format!("connect-{}.json", tool.as_str()),
        Scope::Project => {
            let digest = Digest::of(project.as_os_str().as_encoded_bytes()).to_string();
            format!("connect-{}-{}.json", tool.as_str(), digest.get(..8).unwrap_or_default())
        }
    }
}

impl WrittenRecord {
    /// The changes that give the files the wanted content. They replace the additions of an earlier run.
    pub fn changes(
        &self,
        files: &[ToolFile],
        folder: &ProfileFolder,
        replaces: bool,
    ) -> Result<Vec<FileChange>, Failure> {
        let change = |file: &ToolFile| {
            check_inside(&file.path, file.project.as_deref())?;
            let now = read(&file.path)?;
            let written = self.files.iter().find(|written| written.path == file.path);
            let before = match (&now, written) {
                (Some(now), Some(written)) => written.without(now, folder)?,
                _ => now.clone(),
            };
            let (after, added) = edit::apply(file.syntax, before.as_deref(), &file.edits, replaces)
                .map_err(|error| Failure::refused(format!("{}: {error}", file.path.display())))?;
            Ok(FileChange {
                path: file.path.clone(),
                project: file.project.clone(),
                syntax: file.syntax,
                now,
                before,
                after,
                added,
            })
        };
        files.iter().map(change).collect()
    }

    /// Writes the changes, and the record after each change.
    pub fn write(&mut self, changes: &[FileChange], folder: &ProfileFolder, name: &str) -> Done {
        for change in changes {
            if change.is_done() && self.files.iter().any(|written| written.path == change.path) {
                continue;
            }
            let earlier = self.files.iter().find(|written| written.path == change.path);
            let folders = earlier.map(|written| written.folders.clone());
            let backup = match &change.before {
                Some(before) => {
                    // Named after the path: the index of a file in the record may change.
                    let digest = Digest::of(change.path.as_os_str().as_encoded_bytes()).to_string();
                    let backup = format!("{name}.{}.backup", digest.get(..16).unwrap_or_default());
                    folder.write_bytes(&backup, before.as_bytes())?;
                    Some(backup)
                }
                None => None,
            };
            let folders = match folders {
                Some(folders) => folders,
                None => make_folders(&change.path)?,
            };
            let written = WrittenFile {
                path: change.path.clone(),
                project: change.project.clone(),
                syntax: change.syntax,
                backup,
                sha256: Digest::of(change.after.as_bytes()),
                added: change.added.clone(),
                folders,
            };
            // The record is written before the file: undoing a file that was not written leaves it unchanged.
            match self.files.iter_mut().find(|known| known.path == change.path) {
                Some(known) => *known = written,
                None => self.files.push(written),
            }
            folder.write_json(name, self)?;
            replace(&change.path, change.now.as_deref(), change.after.as_bytes())?;
        }
        Ok(())
    }

    /// Undoes all files, the last one first, and deletes the record and the backups.
    pub fn undo(self, folder: &ProfileFolder, name: &str) -> Result<Vec<(PathBuf, Undone)>, Failure> {
        let mut outcomes = Vec::new();
        for written in self.files.iter().rev() {
            outcomes.push((written.path.clone(), written.undo(folder)?));
        }
        for backup in self.files.iter().filter_map(|written| written.backup.as_deref()) {
            folder.forget(backup)?;
        }
        folder.forget(name)?;
        outcomes.reverse();
        Ok(outcomes)
    }
}

impl FileChange {
    /// Whether the file already has the wanted content.
    pub fn is_done(&self) -> bool {
        self.now.as_deref() == Some(self.after.as_str())
    }
}

impl WrittenFile {
    /// The text without the additions; `None` if there was no file before and it contains no other content.
    fn without(&self, now: &str, folder: &ProfileFolder) -> Result<Option<String>, Failure> {
        if Digest::of(now.as_bytes()) == self.sha256 {
            return self.former(folder);
        }
        let removed = self.removed(now)?;
        Ok(if removed.is_empty && self.backup.is_none() { None } else { Some(removed.text) })
    }

    /// The content before the first change.
    fn former(&self, folder: &ProfileFolder) -> Result<Option<String>, Failure> {
        let Some(backup) = &self.backup else { return Ok(None) };
        let text = folder.text(backup)?;
        let absent = || Failure::refused(format!("the backup {} is absent", folder.path().join(backup).display()));
        text.ok_or_else(absent).map(Some)
    }

    fn removed(&self, now: &str) -> Result<edit::Removed, Failure> {
        edit::remove(self.syntax, now, &self.added)
            .map_err(|error| Failure::refused(format!("{}: {error}", self.path.display())))
    }

    fn undo(&self, folder: &ProfileFolder) -> Result<Undone, Failure> {
        check_inside(&self.path, self.project.as_deref())?;
        let Some(now) = read(&self.path)? else { return Ok(Undone::Absent) };
        let is_unchanged = Digest::of(now.as_bytes()) == self.sha256;
        match (self.without(&now, folder)?, is_unchanged) {
            (Some(before), true) => {
                replace(&self.path, Some(&now), before.as_bytes())?;
                Ok(Undone::Restored)
            }
            (None, _) => {
                fs::remove_file(&self.path).map_err(|error| unwritable(&self.path, &error))?;
                for folder in self.folders.iter().rev() {
                    // A folder with other files stays.
                    let _ = fs::remove_dir(folder);
                }
                Ok(Undone::Deleted)
            }
            (Some(before), false) => {
                let changed = self.removed(&now)?.changed;
                if before != now {
                    replace(&self.path, Some(&now), before.as_bytes())?;
                }
                Ok(Undone::Edited(changed))
            }
        }
    }
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| Failure::refused(format!("{} is not UTF-8: it is left as it is", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::refused(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Creates the folders above a file; returns the created ones.
fn make_folders(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let Some(folder) = path.parent() else { return Ok(Vec::new()) };
    let mut absent: Vec<PathBuf> =
        folder.ancestors().take_while(|folder| !folder.exists()).map(Path::to_path_buf).collect();
    absent.reverse();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unwritable(folder, &error))?;
    Ok(absent)
}

/// Replaces a file as a whole, unless it changed since it was read. The target of a link is replaced, not the link; the mode stays.
fn replace(path: &Path, expected: Option<&str>, bytes: &[u8]) -> Done {
    if read(path)?.as_deref() != expected {
        return Err(Failure::refused(format!("{} was changed meanwhile: run the command again", path.display())));
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mode = fs::metadata(&target).map_or(0o600, |known| known.permissions().mode() & 0o777);
    replace_file(&target, bytes, mode).map_err(|error| unwritable(path, &error))
}

/// Refuses a file of a project if a link leads out of the project: the author of the project could choose the file that is read and
/// replaced.
fn check_inside(path: &Path, project: Option<&Path>) -> Done {
    let Some(project) = project else { return Ok(()) };
    inside(path, project).map(drop).map_err(|error| {
        Failure::refused(format!(
            "{} is not a file of this project: {error}\n  remove the link, or configure your user with `--scope user`",
            path.display()
        ))
    })
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::refused(format!("{} cannot be written: {error}", path.display()))
}
