//! The spool: events of one agent on disk that wait for the sender.
//!
//! Hooks append lines to `TOOL.spool` under a lock. The sender renames the file to `TOOL.sending` under the same lock, reads it to its end
//! and deletes it, so that hooks do not wait for it. The first line of a file is its id: a position is only valid in the file with its id.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use domain::Rng;
use hooks::{HookEvent, Tool};
use serde::{Deserialize, Serialize};

use super::folder::HookFolder;

/// Maximum size of one agent's events on disk. A hook refuses an event that would exceed it.
const SPOOL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Maximum size of a line; hooks write shorter lines.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// Maximum time that a hook waits for the lock.
const LOCKED_FOR_MAX: Duration = Duration::from_secs(1);

/// The spool of one agent.
#[derive(Debug, Clone)]
pub struct Spool {
    folder: HookFolder,
    tool: Tool,
}

/// One line of a spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpoolRecord {
    /// The event, with id and time.
    pub event: HookEvent,
    /// Number of preceding events that did not fit into the spool.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gap: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// First line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    spool: String,
}

/// A position in a spool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolPlace {
    /// Id of the file; empty before the first one.
    #[serde(default)]
    file: String,
    /// Bytes before the next line.
    #[serde(default)]
    offset: u64,
}

/// Reads a file of the spool that hooks no longer write to.
#[derive(Debug)]
pub struct SpoolReader {
    reader: BufReader<File>,
    place: SpoolPlace,
}

/// One line as it was read.
#[derive(Debug)]
pub enum SpoolLine {
    /// An event.
    Record(Box<SpoolRecord>),
    /// A line that was not written completely, or was changed.
    Damaged,
}

impl Spool {
    /// The spool of an agent; nothing is created yet.
    pub fn of(folder: &HookFolder, tool: Tool) -> Self {
        Self { folder: folder.clone(), tool }
    }

    fn name(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.tool.as_str())
    }

    fn bytes(&self, suffix: &str) -> u64 {
        fs::metadata(self.folder.file(&self.name(suffix))).map_or(0, |file| file.len())
    }

    /// Size of the events on disk.
    pub fn size(&self) -> u64 {
        self.bytes("spool") + self.bytes("sending")
    }

    /// Number of events that were refused since the last one that was spooled.
    pub fn refused(&self) -> u64 {
        let text = fs::read_to_string(self.folder.file(&self.name("refused")));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Appends an event, or counts it as refused if it does not fit; returns whether it was appended.
    pub fn append(&self, event: HookEvent) -> io::Result<bool> {
        let lock = self.folder.lock_within(self.tool.as_str(), LOCKED_FOR_MAX)?;
        let gap = self.refused();
        let mut line = serde_json::to_string(&SpoolRecord { event, gap })?;
        line.push('\n');
        if self.size() + line.len() as u64 > SPOOL_BYTES_MAX {
            let mut file = self.folder.append(&self.name("refused"))?;
            file.set_len(0)?;
            write!(file, "{}", gap + 1)?;
            return Ok(false);
        }
        let mut file = self.folder.append(&self.name("spool"))?;
        let end = file.metadata()?.len();
        let mut text = match end {
            0 => {
                serde_json::to_string(&Header {
                    spool: format!("{:032x}", u128::from_be_bytes(Rng::system().bytes())),
                })? + "\n"
            }
            // The last hook may have been killed while it wrote.
            end if last_byte(&file, end)? != b'\n' => "\n".to_owned(),
            _ => String::new(),
        };
        text.push_str(&line);
        if let Err(error) = file.write_all(text.as_bytes()) {
            // Removes the incomplete line; the disk may be full.
            file.set_len(end)?;
            return Err(error);
        }
        if gap > 0 {
            fs::remove_file(self.folder.file(&self.name("refused")))?;
        }
        drop(lock);
        Ok(true)
    }

    /// Opens the oldest events from a position on; `None` if there are none.
    pub fn open(&self, place: &SpoolPlace) -> io::Result<Option<SpoolReader>> {
        let (spool, sending) = (self.folder.file(&self.name("spool")), self.folder.file(&self.name("sending")));
        let file = match File::open(&sending) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if self.bytes("spool") == 0 {
                    return Ok(None);
                }
                let _others_wait = self.folder.lock_within(self.tool.as_str(), LOCKED_FOR_MAX)?;
                fs::rename(&spool, &sending)?;
                File::open(&sending)?
            }
            opened => opened?,
        };
        let mut reader = BufReader::new(file);
        let mut first = Vec::new();
        let length = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut first)? as u64;
        let place = match serde_json::from_slice::<Header>(&first) {
            Ok(header) if header.spool == place.file => place.clone(),
            Ok(header) => SpoolPlace { file: header.spool, offset: length },
            // Without an id the lines are read from the start of the file; the ids of events prevent duplicates.
            Err(_) => SpoolPlace { file: String::new(), offset: 0 },
        };
        reader.seek(SeekFrom::Start(place.offset))?;
        Ok(Some(SpoolReader { reader, place }))
    }

    /// Deletes the file that was read to its end.
    pub fn finish(&self) -> io::Result<()> {
        fs::remove_file(self.folder.file(&self.name("sending")))
    }

    /// Number of events from a position on.
    pub fn count(&self, place: &SpoolPlace) -> io::Result<u64> {
        let mut count = 0;
        for suffix in ["sending", "spool"] {
            let file = match File::open(self.folder.file(&self.name(suffix))) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            };
            let mut reader = BufReader::new(file);
            let mut first = Vec::new();
            reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut first)?;
            if serde_json::from_slice::<Header>(&first).is_ok_and(|header| header.spool == place.file) {
                reader.seek(SeekFrom::Start(place.offset))?;
            }
            count += reader.split(b'\n').filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).count() as u64;
        }
        Ok(count)
    }
}

impl SpoolReader {
    /// Reads the next line; `None` at the end. [`Self::place`] is then the position after it.
    pub fn next(&mut self) -> io::Result<Option<SpoolLine>> {
        loop {
            let mut line = Vec::new();
            let read = self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            self.place.offset += read as u64;
            match line.strip_suffix(b"\n") {
                None if line.is_empty() => return Ok(None),
                Some([]) => {}
                whole => {
                    let record = whole.and_then(|line| serde_json::from_slice(line).ok());
                    return Ok(Some(record.map_or(SpoolLine::Damaged, SpoolLine::Record)));
                }
            }
        }
    }

    /// The position after the last line that was read.
    pub fn place(&self) -> &SpoolPlace {
        &self.place
    }
}

fn last_byte(file: &File, end: u64) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, end - 1)?;
    Ok(byte[0])
}
