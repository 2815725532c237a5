//! Replaces a file as a whole: a crash leaves either the old or the new content.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::Builder;

/// Replaces `path` with a new file that has this content and mode, and syncs both file and folder.
///
/// The new file has a random name and must not exist (`O_CREAT | O_EXCL`), so that a link in the folder is never followed. It is deleted on
/// failure.
pub fn replace_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = Builder::new().prefix(".attache-").suffix(".new").tempfile_in(folder)?;
    new.as_file().set_permissions(Permissions::from_mode(mode))?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    File::open(folder)?.sync_all()
}

/// Resolves the links of `path`. It is an error if the target is missing or outside of `folder`.
pub fn inside(path: &Path, folder: &Path) -> io::Result<PathBuf> {
    let folder = fs::canonicalize(folder)?;
    // Missing folders are created below the first existing one.
    let existing = path.ancestors().find(|known| fs::symlink_metadata(known).is_ok()).unwrap_or(path);
    let real = fs::canonicalize(existing)?;
    if real.starts_with(&folder) {
        Ok(real)
    } else {
        Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("it leads to {}, outside of {}", real.display(), folder.display()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_nothing_else_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (target, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&other, "theirs").unwrap();
        symlink(&other, &target).unwrap();
        replace_file(&target, b"ours", 0o640).unwrap();
        assert_eq!((fs::read(&target).unwrap(), fs::read(&other).unwrap()), (b"ours".to_vec(), b"theirs".to_vec()));
        assert_eq!(fs::symlink_metadata(&target).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file stays");
        assert!(replace_file(&folder.path().join("absent/a"), b"", 0o600).is_err());
    }

    #[test]
    fn a_path_is_inside_only_if_its_links_are() {
        let folder = tempfile::tempdir().unwrap();
        let (project, outside) = (folder.path().join("project"), folder.path().join("outside"));
        fs::create_dir_all(project.join("real")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "").unwrap();
        for (name, to) in
            [("folder", outside.clone()), ("file", outside.join("file")), ("nowhere", outside.join("new"))]
        {
            symlink(to, project.join(name)).unwrap();
        }
        symlink("real", project.join("within")).unwrap();
        for wrong in ["folder/settings.json", "folder/below/settings.json", "file", "nowhere", "../outside/file"] {
            assert!(inside(&project.join(wrong), &project).is_err(), "{wrong}");
        }
        for right in ["settings.json", "new/settings.json", "real/settings.json", "within/settings.json"] {
            assert!(inside(&project.join(right), &project).is_ok(), "{right}");
        }
    }
}
