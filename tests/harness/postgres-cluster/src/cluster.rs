//! Creates, starts and stops a cluster with PostgreSQL's programs.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use tools::memory;

use crate::packages;

const VERSION_MIN: u32 = 15;
/// Another process may bind the free port before the cluster does.
const PORT_TRIES: usize = 5;

const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
shared_buffers = 64MB
fsync = on
synchronous_commit = on
full_page_writes = on
";

/// The folder of PostgreSQL's programs, and the user that may run them.
pub struct Programs {
    folder: PathBuf,
    /// User and group `postgres`, if this process runs as root.
    owner: Option<(u32, u32)>,
    /// The packages that they have to be copied from first.
    packages: Option<PathBuf>,
}

impl Programs {
    /// The first PostgreSQL in `PATH`, else the newest of a Debian layout, if it is new enough.
    pub fn find() -> Option<Self> {
        Self::installed(|version| version >= VERSION_MIN)
    }

    /// This version, as an administrator or else `make tools` has installed it.
    pub fn of_version(wanted: u32) -> Option<Self> {
        Self::installed(|version| version == wanted).or_else(|| packages::of_version(wanted))
    }

    fn installed(is_wanted: impl Fn(u32) -> bool) -> Option<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
        versions.sort_by_key(|folder| version(folder));
        let mut folders = env::split_paths(&path).chain(versions.into_iter().rev());
        let folder =
            folders.find(|folder| folder.join("initdb").is_file() && version(folder).is_some_and(&is_wanted))?;
        Self::at(folder, None)
    }

    /// Those in a folder.
    pub fn at(folder: PathBuf, packages: Option<PathBuf>) -> Option<Self> {
        let owner = match (number(&["-u"])?, number(&["-u", "postgres"]), number(&["-g", "postgres"])) {
            (0, Some(user), Some(group)) => Some((user, group)),
            (0, ..) => return None,
            _ => None,
        };
        Some(Self { folder, owner, packages })
    }

    /// Runs one of the programs to its end; its words become the error when it fails.
    fn run(&self, program: &str, folder: &Path, arguments: &[&OsStr]) -> io::Result<()> {
        let mut command = Command::new(self.folder.join(program));
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("LC_ALL", "C");
        // Not a pipe: the server would inherit it, and reading it to its end would wait for the server's death.
        let words = folder.join(format!("{program}.out"));
        command.stdout(fs::File::create(&words)?).stderr(fs::File::options().append(true).open(&words)?);
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        if command.status()?.success() {
            return Ok(());
        }
        let words = fs::read_to_string(words).unwrap_or_default();
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        Err(io::Error::other(format!("{program} failed\n{words}{log}")))
    }
}

/// A new private folder of the user that runs the cluster.
pub fn make_folder(programs: &Programs) -> io::Result<PathBuf> {
    let folder = memory::make_folder("postgres", programs.packages.is_some())?;
    if let Some((user, group)) = programs.owner {
        chown(&folder, Some(user), Some(group))?;
    }
    Ok(folder)
}

/// Creates and starts the cluster in `folder`; returns its URL.
pub fn start(mut programs: Programs, folder: &Path) -> io::Result<String> {
    if let Some(packages) = &programs.packages {
        programs.folder = packages::copy(packages, folder)?;
    }
    let data = folder.join("data");
    let log = folder.join("log");
    let make = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"];
    programs.run("initdb", folder, &make.map(OsStr::new).into_iter().chain([data.as_os_str()]).collect::<Vec<_>>())?;
    let settings = data.join("postgresql.conf");
    let defaults = fs::read_to_string(&settings)?;

    let mut tries = 0;
    loop {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        fs::write(&settings, format!("{defaults}{SETTINGS}port = {port}\n"))?;
        let wait = ["start", "--wait", "--timeout=60", "--log"].map(OsStr::new);
        let arguments: Vec<&OsStr> =
            wait.into_iter().chain([log.as_os_str(), OsStr::new("--pgdata"), data.as_os_str()]).collect();
        tries += 1;
        match programs.run("pg_ctl", folder, &arguments) {
            Ok(()) => return Ok(format!("postgres://postgres@127.0.0.1:{port}/postgres")),
            Err(error) if tries == PORT_TRIES => return Err(error),
            Err(_) => {}
        }
    }
}

/// Stops the cluster, if it runs, and removes every trace of it.
pub fn remove(folder: &Path) -> io::Result<()> {
    let data = folder.join("data");
    // The owner of the folder is the user that the cluster runs as.
    let owner = fs::metadata(folder).map(|folder| (folder.uid(), folder.gid()))?;
    // Any `pg_ctl` stops any server: it sends a signal.
    let found = packages::copied(folder).and_then(|copied| Programs::at(copied, None)).or_else(Programs::find);
    if let Some(found) = found.filter(|_| data.join("postmaster.pid").exists()) {
        let programs = Programs { owner: found.owner.map(|_| owner), ..found };
        let stop = ["stop", "--wait", "--mode=immediate", "--pgdata"].map(OsStr::new);
        let arguments: Vec<&OsStr> = stop.into_iter().chain([data.as_os_str()]).collect();
        // Removing the folder ends a server that does not obey: it checks its lock file every minute.
        if let Err(error) = programs.run("pg_ctl", folder, &arguments) {
            eprintln!("postgres-cluster: {error}");
        }
    }
    fs::remove_dir_all(folder)
}

/// The major version of the PostgreSQL in a folder.
fn version(folder: &Path) -> Option<u32> {
    let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?; // postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
    let number = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    number.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
}

/// A number that the program `id` prints.
fn number(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
