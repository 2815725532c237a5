//! The signals that end a command that runs until a signal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// A signal that ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// SIGTERM, of a supervisor.
    Terminate,
    /// SIGINT, of a person at a terminal.
    Interrupt,
}

/// Both signals, received from [`Endings::watch`] on.
#[derive(Debug)]
pub struct Endings {
    terminate: Signal,
    interrupt: Signal,
}

impl Endings {
    /// Starts to listen, so that no signal is missed between two waits.
    pub fn watch() -> Result<Self, Failure> {
        let signal = |kind| signal(kind).map_err(|error| unwatched(&error));
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.terminate.recv() => Ending::Terminate,
            _ = self.interrupt.recv() => Ending::Interrupt,
        }
    }
}

/// Why a command that needs a signal does not start.
pub fn unwatched(error: &io::Error) -> Failure {
    Failure::refused(format!("cannot listen for signals: {error}"))
}
