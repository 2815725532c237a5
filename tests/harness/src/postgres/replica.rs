//! A streaming replica of a [`TestCluster`].

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::TestCluster;

impl TestCluster {
    /// Makes a hot standby of this cluster with `pg_basebackup`, and starts it. It is removed with the folder of this cluster, and stopped when
    /// it is dropped.
    ///
    /// # Panics
    /// When a program of PostgreSQL fails.
    pub fn replica(&self) -> TestReplica {
        let folder = self.folder.with_file_name("replica");
        let (_, address) = self.url.rsplit_once('@').unwrap_or_else(|| panic!("{}", self.url));
        let (address, database) = address.split_once('/').unwrap_or((address, "postgres"));
        let (host, port) = address.split_once(':').unwrap_or_else(|| panic!("{address}"));
        let mut copy = Command::new(self.pg_ctl.with_file_name("pg_basebackup"));
        copy.args(["--host", host, "--port", port, "--username=postgres", "--checkpoint=fast", "--wal-method=stream"]);
        copy.args(["--write-recovery-conf", "--no-sync", "--pgdata"]).arg(&folder);
        let owner = fs::metadata(&self.folder).unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        if fs::metadata("/proc/self").is_ok_and(|mine| mine.uid() != owner.uid()) {
            copy.uid(owner.uid()).gid(owner.gid());
        }
        copy.current_dir(self.folder.parent().unwrap_or(&self.folder)).env("LC_ALL", "C").stdin(Stdio::null());
        let copied = copy.output().unwrap_or_else(|error| panic!("pg_basebackup: {error}"));
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
        let port = free.unwrap_or_else(|error| panic!("{error}")).port();
        // The last line of a setting counts.
        let settings = fs::File::options().append(true).open(folder.join("postgresql.auto.conf"));
        let written = settings.and_then(|mut file| writeln!(file, "port = {port}"));
        written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let url = format!("postgres://postgres@127.0.0.1:{port}/{database}");
        let server = Self { url, folder, pg_ctl: self.pg_ctl.clone() };
        server.start();
        TestReplica(server)
    }
}

/// A running replica.
#[derive(Debug)]
pub struct TestReplica(pub TestCluster);

impl Drop for TestReplica {
    fn drop(&mut self) {
        if self.0.folder.join("postmaster.pid").exists() {
            self.0.stop("immediate");
        }
    }
}
