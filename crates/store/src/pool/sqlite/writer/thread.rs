//! The thread that waits for the disk and for other processes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs one job after the other and ends when this is dropped.
pub struct WriterThread(mpsc::Sender<Job>);

impl WriterThread {
    pub fn start() -> std::io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        thread::Builder::new().name("sqlite-writer".to_owned()).spawn(move || {
            for job in jobs {
                // Unwinding drops the turn of the job; later jobs still run.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a job of the writer panicked");
                }
            }
        })?;
        Ok(Self(sender))
    }

    /// Runs a job after all earlier ones.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        if self.0.send(Box::new(job)).is_err() {
            tracing::error!("the thread of the writer is gone");
        }
    }
}
