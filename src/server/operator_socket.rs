//! The operator's socket: a file through which processes on this computer reach the operator's API. The kernel names their users.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use app::config::Settings;
use tokio::net::UnixListener;

/// Mode for the server's own user and root.
const OWN: u32 = 0o600;

/// Mode for operators with other user ids. The API checks the user of each process.
const OTHERS: u32 = 0o666;

/// The file of a bound socket, which is removed with this value.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another server may have replaced the file; the next start replaces a file that is left.
        let _ = fs::remove_file(&self.0);
    }
}

/// Binds the socket of the configuration; `None` if it has none, or if the file system has no sockets, which is logged.
pub fn bind(settings: &Settings) -> Option<(UnixListener, SocketFile)> {
    let path = settings.admin.socket_in(&settings.data.dir)?;
    let mode = if settings.admin.operator.iter().any(|operator| operator.uid.is_some()) { OTHERS } else { OWN };
    match bound(&path, mode) {
        Ok(listener) => Some((listener, SocketFile(path))),
        Err(error) => {
            let error = domain::reasons(&error);
            let path = path.display();
            tracing::warn!(error, %path, "the operator's socket is off: set admin.socket to a path where a socket is possible, or to \"\"");
            None
        }
    }
}

/// Replaces the file of an earlier process. The file appears with its mode.
fn bound(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let new = path.with_added_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(mode))?;
    fs::rename(&new, path)?;
    Ok(listener)
}
