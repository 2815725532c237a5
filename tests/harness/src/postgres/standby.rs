//! A standby of a cluster: asynchronous, until it is promoted.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use sqlx::PgConnection;

use super::{TestCluster, connect};

impl TestCluster {
    /// Starts a standby that receives the writes of this cluster; the cluster does not wait for it. Its folder is next to the cluster's,
    /// and is removed with the cluster.
    ///
    /// # Panics
    /// When PostgreSQL refuses.
    #[must_use]
    pub fn standby(&self) -> TestCluster {
        let folder = self.folder.with_file_name("standby");
        let owner = fs::metadata(&self.folder).unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.and_then(|()| chown(&folder, Some(owner.uid()), Some(owner.gid())))
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        self.program(
            "pg_basebackup",
            [
                OsStr::new("--write-recovery-conf"),
                OsStr::new("--checkpoint=fast"),
                OsStr::new("--dbname"),
                OsStr::new(&self.url),
                OsStr::new("--pgdata"),
                folder.as_os_str(),
            ],
        );
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.unwrap_or_else(|error| panic!("no port: {error}")).port();
        let settings = folder.join("postgresql.conf");
        let text = fs::read_to_string(&settings).unwrap_or_else(|error| panic!("{}: {error}", settings.display()));
        fs::write(&settings, format!("{text}\nport = {port}\n")).unwrap_or_else(|error| panic!("{error}"));
        let standby =
            Self { url: format!("postgres://postgres@127.0.0.1:{port}/postgres"), pg_ctl: self.pg_ctl.clone(), folder };
        let log = standby.folder.with_file_name("standby.log");
        standby.run(&["start", "--wait", "--timeout=60", "--log", &log.to_string_lossy()]);
        standby
    }

    /// Waits until the standby has applied all writes of this cluster so far.
    ///
    /// # Panics
    /// When a server cannot be asked.
    pub async fn wait_for(&self, standby: &TestCluster) {
        let written: String = ask(&mut connect(&self.url).await, "SELECT pg_current_wal_flush_lsn()::TEXT").await;
        let mut behind = connect(&standby.url).await;
        let is_there = "SELECT COALESCE(pg_last_wal_replay_lsn() >= $1::PG_LSN, FALSE)";
        loop {
            let is_there: bool = sqlx::query_scalar(is_there)
                .bind(&written)
                .fetch_one(&mut behind)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
            if is_there {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Each commit of this cluster waits for its standby from now on; returns when the standby takes part.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn waits_for_standby(&self) {
        let mut connection = connect(&self.url).await;
        for statement in ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"] {
            let result = sqlx::raw_sql(statement).execute(&mut connection).await;
            result.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let synchronous = "SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        while ask::<i64>(&mut connection, synchronous).await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Cuts off a standby: it receives no further writes, as after a network failure.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn cut_off(&self) {
        let mut connection = connect(&self.url).await;
        for statement in ["ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"] {
            let result = sqlx::raw_sql(statement).execute(&mut connection).await;
            result.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        while ask::<i64>(&mut connection, "SELECT COUNT(*) FROM pg_stat_wal_receiver").await > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// A standby becomes a primary.
    pub fn promote(&self) {
        self.run(&["promote", "--wait", "--timeout=60"]);
    }

    /// Runs one of PostgreSQL's programs as the user that the cluster belongs to.
    ///
    /// # Panics
    /// When it fails.
    fn program<'a>(&self, name: &str, arguments: impl IntoIterator<Item = &'a OsStr>) {
        let owner = fs::metadata(&self.folder).unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        let mut command = Command::new(self.pg_ctl.with_file_name(name));
        command.args(arguments).current_dir(&self.folder).env("LC_ALL", "C").stdin(Stdio::null());
        if fs::metadata("/proc/self").is_ok_and(|mine| mine.uid() != owner.uid()) {
            command.uid(owner.uid()).gid(owner.gid());
        }
        let done = command.output().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

async fn ask<T>(connection: &mut PgConnection, sql: &'static str) -> T
where
    T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

impl Drop for TestCluster {
    /// A server in another folder than the cluster's own is not known to its watchdog.
    fn drop(&mut self) {
        if self.folder.ends_with("standby") && self.folder.join("postmaster.pid").exists() {
            self.run(&["stop", "--wait", "--mode", "immediate"]);
        }
    }
}
