//! F3r: how fast records become durable when their senders share a commit.
//!
//! The file is filled with zeros before the measurement, so that a commit writes no metadata of the file system. Each group
//! is written with one `pwrite` and made durable with one `fdatasync`. At its end the file is written again from its
//! beginning.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Size of a record in bytes.
pub const RECORD_BYTES: usize = 1100;
/// Most records that share a commit.
const GROUP_MAX: usize = 1024;
/// Size of the file in bytes: a few seconds of writing.
const FILE_BYTES: u64 = 128 * 1024 * 1024;

/// A record, and the sender that waits until it is durable.
type Append = (Vec<u8>, oneshot::Sender<()>);

/// A file that is ready to be written.
#[derive(Debug)]
pub struct Disk {
    file: File,
}

/// What the senders measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// From handing over a record until it was durable, in nanoseconds.
    pub latencies: Vec<u64>,
    /// Records of each sender.
    pub by_sender: Vec<usize>,
    /// Measured time.
    pub took: Duration,
}

impl Disk {
    /// Makes the file and fills it with zeros.
    pub fn prepare(folder: &Path) -> io::Result<Self> {
        static CHUNK: [u8; 64 * 1024] = [0; 64 * 1024];
        let file = File::create(folder.join("floor"))?;
        for offset in (0..FILE_BYTES).step_by(CHUNK.len()) {
            file.write_all_at(&CHUNK, offset)?;
        }
        file.sync_all()?;
        Ok(Self { file })
    }

    /// Appends from `senders` tasks at once, each of which waits for its record to be durable before it sends the next.
    pub async fn measure(self, senders: usize, length: Duration) -> io::Result<Measured> {
        let (queue, records) = mpsc::channel(senders.max(1));
        let writer = thread::spawn(move || write(&self.file, records));
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for sender in 0..senders {
            tasks.spawn(append(queue.clone(), sender, begin + length));
        }
        drop(queue);
        let mut measured = Measured { latencies: Vec::new(), by_sender: Vec::new(), took: Duration::ZERO };
        while let Some(latencies) = tasks.join_next().await {
            let latencies = latencies?;
            measured.by_sender.push(latencies.len());
            measured.latencies.extend(latencies);
        }
        measured.took = begin.elapsed();
        writer.join().map_err(|_| io::Error::other("the writer panicked"))??;
        Ok(measured)
    }
}

/// One sender; returns the latencies of its records.
async fn append(queue: mpsc::Sender<Append>, sender: usize, end: Instant) -> Vec<u64> {
    let mut latencies = Vec::new();
    let mut record = vec![0; RECORD_BYTES];
    for number in 0_u64.. {
        let before = Instant::now();
        if before >= end {
            break;
        }
        record[..8].copy_from_slice(&number.to_le_bytes());
        record[8..16].copy_from_slice(&(sender as u64).to_le_bytes());
        let (durable, wait) = oneshot::channel();
        if queue.send((record.clone(), durable)).await.is_err() || wait.await.is_err() {
            break;
        }
        latencies.push(u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    latencies
}

/// The one writer: the records that queued up during a commit share the next.
fn write(file: &File, mut records: mpsc::Receiver<Append>) -> io::Result<()> {
    let mut group: Vec<Append> = Vec::with_capacity(GROUP_MAX);
    let mut bytes = Vec::with_capacity(GROUP_MAX * RECORD_BYTES);
    let mut offset = 0;
    while records.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
        bytes.clear();
        for (record, _) in &group {
            bytes.extend_from_slice(record);
        }
        if offset + bytes.len() as u64 > FILE_BYTES {
            offset = 0;
        }
        file.write_all_at(&bytes, offset)?;
        file.sync_data()?;
        offset += bytes.len() as u64;
        for (_, durable) in group.drain(..) {
            // A sender that has ended does not wait.
            let _ = durable.send(());
        }
    }
    Ok(())
}
