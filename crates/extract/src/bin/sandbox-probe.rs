//! Attempts the operations of an exploited parser, inside the sandbox of the extraction process or outside it. Used by this crate's tests.
//!
//! The first argument is `inside` or `outside`; the others are pairs of an attempt and its target. For each pair the probe prints a
//! line: `done`, or `refused` and the reason.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

use extract::ExtractSettings;
use extract::sandbox::{self, Confinement};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((place, attempts)) = arguments.split_first() else { return Err(io::Error::other("inside or outside?")) };
    let all = || attempts.as_chunks::<2>().0.iter().map(|[name, on]| outcome(attempt(name, on))).collect::<Vec<_>>();
    let lines = match place.as_str() {
        "outside" => all(),
        _ => sandbox::run(&ExtractSettings::default(), |confinement: io::Result<Confinement>| {
            let mut lines =
                vec![confinement.map_or_else(|error| error.to_string(), |confinement| confinement.to_string())];
            lines.extend(all());
            lines
        })?,
    };
    for line in lines {
        println!("{line}");
    }
    Ok(())
}

fn outcome(tried: io::Result<()>) -> String {
    tried.map_or_else(|error| format!("refused: {error}"), |()| "done".to_owned())
}

fn attempt(name: &str, on: &str) -> io::Result<()> {
    let process = || on.parse().ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process"));
    match name {
        "read" => fs::read(on).map(drop),
        "list" => fs::read_dir(on).map(drop),
        "write" => OpenOptions::new().append(true).open(on).map(drop),
        "create" => fs::write(on, ""),
        "remove" => fs::remove_file(on),
        "link" => std::os::unix::fs::symlink("/", on),
        "look" => fs::metadata(on).map(drop),
        "connect" => TcpStream::connect(on).map(drop),
        "listen" => TcpListener::bind(on).map(drop),
        "send" => UdpSocket::bind(on).map(drop),
        "unix" => UnixStream::connect(on).map(drop),
        "execute" => Command::new(on).status().map(drop),
        "thread" => std::thread::Builder::new().spawn(|| ()).map(drop),
        "see" => Ok(test_kill_process(process()?)?),
        "signal" => Ok(kill_process(process()?, Signal::CONT)?),
        "unlimit" => {
            let unlimited = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
            Ok(rustix::process::setrlimit(rustix::process::Resource::Nofile, unlimited)?)
        }
        _ => Err(io::Error::other("no such attempt")),
    }
}
