//! The program `attache` at a terminal: keys are typed, and the screen is read as a person sees it.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use vt100::Parser;

use crate::eventually;
use crate::process::Home;

/// A program at a terminal; killed when dropped.
pub struct Terminal {
    child: Child,
    controller: File,
    screen: Arc<Mutex<Parser>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a command with these environment variables at a terminal of this size, in columns and lines.
    pub fn start(home: &Home, arguments: &[&str], variables: &[(&str, &str)], size: (u16, u16)) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let path = ptsname(&controller, Vec::new()).unwrap();
        // The terminal of the test itself stays its controlling one.
        let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let terminal = File::options().read(true).write(true).custom_flags(flags).open(path.to_str().unwrap()).unwrap();
        set_size(&controller, size);
        let mut command: Command = home.command(arguments);
        command.env("TERM", "xterm-256color").envs(variables.iter().copied());
        let copy = || terminal.try_clone().unwrap();
        let child = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap();
        // The command has its own copies, which end with it.
        drop((command, terminal));
        let controller = File::from(controller);
        let screen = Arc::new(Mutex::new(Parser::new(lines(size), columns(size), 0)));
        let reader = thread::spawn({
            let (controller, screen) = (controller.try_clone().unwrap(), Arc::clone(&screen));
            move || follow(controller, &screen)
        });
        Self { child, controller, screen, reader: Some(reader) }
    }

    /// Types these characters; `\r` is Enter, `\u{1b}` Escape.
    pub fn press(&self, keys: &str) {
        (&self.controller).write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size of the window, in columns and lines.
    pub fn resize(&self, size: (u16, u16)) {
        self.parser().screen_mut().set_size(lines(size), columns(size));
        set_size(&self.controller, size);
        // The system sends it to the programs of a session only, which this one is not.
        self.signal("WINCH");
    }

    /// Sends a signal by its name, such as `INT`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "kill -s {name}");
    }

    fn parser(&self) -> MutexGuard<'_, Parser> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The screen as text.
    pub fn text(&self) -> String {
        self.parser().screen().contents()
    }

    /// Whether a cell of the screen has a colour.
    pub fn has_colours(&self) -> bool {
        let parser = self.parser();
        let (lines, columns) = parser.screen().size();
        let cells = (0..lines.get()).flat_map(|line| (0..columns.get()).map(move |column| (line, column)));
        let mut cells = cells.filter_map(|(line, column)| parser.screen().cell(line, column));
        cells.any(|cell| cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default)
    }

    /// Waits until the screen contains all of these texts; returns it.
    pub async fn shows(&self, parts: &[&str]) -> String {
        eventually(&format!("the screen shows {parts:?}"), async || {
            let text = self.text();
            parts.iter().all(|part| text.contains(part)).then_some(text)
        })
        .await
    }

    /// Waits until the program has ended. Asserts that it left the terminal as it was.
    pub async fn exit(&mut self) -> ExitStatus {
        let reader = self.reader.take().unwrap();
        eventually("the program ends", async || reader.is_finished().then_some(())).await;
        reader.join().unwrap();
        let parser = self.parser();
        let screen = parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "the screen is restored: {}", screen.contents());
        drop(parser);
        let modes = tcgetattr(&self.controller).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        self.child.wait().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        if thread::panicking() {
            eprintln!("--- the screen:\n{}", self.text());
        }
    }
}

fn set_size(controller: &impl AsFd, (columns, lines): (u16, u16)) {
    let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(controller, size).unwrap();
}

fn columns(size: (u16, u16)) -> NonZero<u16> {
    NonZero::new(size.0).unwrap()
}

fn lines(size: (u16, u16)) -> NonZero<u16> {
    NonZero::new(size.1).unwrap()
}

/// Reads until the last program at the terminal has ended, which is an error of the system here.
fn follow(mut controller: File, screen: &Mutex<Parser>) {
    let mut bytes = [0; 4_096];
    while let Ok(number) = controller.read(&mut bytes)
        && number > 0
    {
        screen.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..number]);
    }
}
