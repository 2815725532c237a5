//! The terminal: drawn on while a [`Screen`] exists, and as it was before when that is dropped, also by a panic.

use std::io::{IsTerminal, stdin};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{Event, poll, read};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use commands::failure::{Failure, FailureKind};
use commands::terminal::is_watched;

/// Time after which the thread that reads keys looks whether it is still needed.
const LOOK: Duration = Duration::from_millis(200);

/// Maximum number of keys that wait, such as the characters of a pasted text.
const KEYS_MAX: usize = 1_024;

/// A terminal in raw mode with its alternate screen.
pub struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Prepares the terminal. Fails without one, or with one that cannot be drawn on.
    pub fn open() -> Result<Self, Failure> {
        let refused =
            |what: &str| Failure::of(FailureKind::Usage, format!("{what}: `attache top --once` prints one table"));
        if !(stdin().is_terminal() && is_watched()) {
            return Err(refused("standard input and output are no terminal"));
        }
        if std::env::var_os("TERM").is_some_and(|kind| kind == "dumb") {
            return Err(refused("a terminal of the kind \"dumb\" cannot be drawn on"));
        }
        // Also restores the terminal before the message of a panic.
        let terminal = ratatui::try_init();
        terminal.map(|terminal| Self { terminal }).map_err(|error| {
            ratatui::restore();
            Failure::refused(format!("the terminal cannot be drawn on: {error}"))
        })
    }

    /// Draws a frame. A changed size of the window is noticed here.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.terminal.draw(render).map(drop).map_err(|error| lost(&error))
    }

    /// Keys and changes of the window's size, from now on. The channel ends if the terminal does.
    pub fn events() -> Receiver<Event> {
        let (sender, receiver) = channel(KEYS_MAX);
        thread::spawn(move || forward(&sender));
        receiver
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Fails only if the terminal has gone.
        let _ = self.terminal.show_cursor();
        ratatui::restore();
    }
}

fn forward(sender: &Sender<Event>) {
    while !sender.is_closed() {
        match poll(LOOK) {
            Ok(false) => {}
            Ok(true) => {
                let sent = read().is_ok_and(|event| sender.blocking_send(event).is_ok());
                if !sent {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// The failure of a command without its terminal.
pub fn lost(error: &dyn std::fmt::Display) -> Failure {
    Failure::refused(format!("the terminal has gone: {error}"))
}
