//! A file system that is really full, and files that are not at their paths any more.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::patient::{KINDS, Patient, home, is_soak, rounds};
use blackbox::process::Home;

/// Size of the file system: the databases with their logs and other files.
const SIZE_MB: u32 = 160;

/// Without a mail server mails are files in the data folder: one that is written while that is another folder is not found afterwards.
const WITHOUT_MAILS: [&str; 3] = ["event", "registration", "batch"];

/// A file system in memory; unmounted when dropped.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts it on the data folder of `home`; `None` where this is not permitted.
    fn mount(home: &Home) -> Option<Self> {
        let folder = home.data();
        fs::create_dir_all(&folder).unwrap();
        let size = format!("size={SIZE_MB}m,mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "attache-test"]).arg(&folder).output();
        match mounted {
            Ok(done) if done.status.success() => Some(Self { folder }),
            refused => {
                assert!(
                    !harness::postgres::required(),
                    "a tmpfs cannot be mounted, and ATTACHE_TEST_REQUIRE_ALL=1 asks for everything: {refused:?}"
                );
                eprintln!("SKIPPED: a tmpfs cannot be mounted ({refused:?}): this test has shown nothing");
                None
            }
        }
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }

    /// Takes every byte that is left.
    fn fill(&self) {
        let mut filler = File::options().create(true).append(true).open(self.filler()).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            if filler.write_all(&vec![0; size]).is_err() {
                size /= 4;
            }
        }
    }

    fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A lazy unmount: the server still has open files there, and is killed afterwards.
        let unmounted = Command::new("umount").arg("-l").arg(&self.folder).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.folder.display());
        }
    }
}

/// Truncates the write-ahead log of a database, so that the next write needs new space.
async fn shrink(path: &Path) {
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    // With concurrent traffic this may fail; then the log is only longer.
    let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await;
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_full_file_system_refuses_writes_and_loses_nothing_and_room_heals_it() {
    let home = home();
    let Some(disk) = Disk::mount(&home) else { return };
    // Dropped in this order, last first: the folder can be removed once nothing is mounted there.
    let (mut patient, disk) = (Patient::begin(home).await, disk);
    for _ in 0..rounds() {
        for name in ["attache.db", "statistics.db"] {
            shrink(&patient.home.data().join(name)).await;
        }
        disk.fill();
        patient.suffers(&KINDS, "disk").await;
        if is_soak() {
            tokio::time::sleep(Duration::from_secs(10)).await;
            disk.fill();
            patient.suffers(&KINDS, "disk").await;
        }
        disk.free();
        patient.recovers().await;
    }
    patient.is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_full_file_system_serves_reads_and_room_heals_it() {
    let home = home();
    let Some(disk) = Disk::mount(&home) else { return };
    let (mut patient, disk) = (Patient::begin(home).await, disk);
    disk.fill();
    patient.suffers(&KINDS, "disk").await;
    patient.starts_again().await;
    patient.suffers(&KINDS, "disk").await;
    patient.reads().await;
    disk.free();
    patient.recovers().await;
    patient.is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_moved_or_replaced_are_not_written_to_and_their_return_heals_it() {
    let mut patient = Patient::begin(home()).await;
    let data = patient.home.data();
    let away = data.with_extension("away");
    patient.mails_are_there().await;
    fs::rename(&data, &away).unwrap();
    patient.suffers(&WITHOUT_MAILS, "disk").await;
    patient.reads().await;
    fs::rename(&away, &data).unwrap();
    patient.recovers().await;
    for (name, kinds) in [("statistics.db", &KINDS[..1]), ("attache.db", &KINDS[1..])] {
        let (path, copy, kept) = (data.join(name), data.join("copy"), data.join("kept"));
        fs::copy(&path, &copy).unwrap();
        fs::hard_link(&path, &kept).unwrap();
        fs::rename(&copy, &path).unwrap();
        patient.suffers(kinds, "disk").await;
        fs::rename(&kept, &path).unwrap();
        patient.recovers().await;
    }
    patient.is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_over_the_data_folder_is_noticed_and_its_end_heals_it() {
    let mut patient = Patient::begin(home()).await;
    patient.mails_are_there().await;
    let Some(disk) = Disk::mount(&patient.home) else { return };
    patient.suffers(&WITHOUT_MAILS, "disk").await;
    drop(disk);
    patient.recovers().await;
    patient.is_whole().await;
}
