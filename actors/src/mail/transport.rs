//! The two mail transports: one file per mail, or an SMTP server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use domain::Timestamp;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::{self, AsyncSmtpTransport};
use lettre::{Address, AsyncTransport, Tokio1Executor};
use store::mail::QueuedMail;

use super::settings::{MailSettings, TransportKind, smtp as smtp_transport};

/// A mail transport with the sender's address.
#[derive(Clone)]
pub struct Transport {
    from: Mailbox,
    way: Backend,
}

#[derive(Clone)]
enum Backend {
    Files(PathBuf),
    Smtp(AsyncSmtpTransport<Tokio1Executor>),
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.way {
            Backend::Files(_) => "Transport(files)",
            Backend::Smtp(_) => "Transport(smtp)",
        })
    }
}

/// Why a mail was not sent. Does not contain the recipient.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Undelivered {
    what: String,
    /// Whether a retry cannot succeed.
    pub for_good: bool,
}

impl Undelivered {
    fn for_now(what: impl Into<String>) -> Self {
        Self { what: what.into(), for_good: false }
    }

    /// The code has expired.
    pub(super) fn too_late() -> Self {
        Self::for_good("there was no time left")
    }

    fn for_good(what: impl Into<String>) -> Self {
        Self { what: what.into(), for_good: true }
    }
}

impl Transport {
    /// The configured transport. `outbox` is the folder of files.
    pub fn new(settings: &MailSettings, outbox: PathBuf) -> Result<Self, String> {
        let from = settings.from.as_deref().unwrap_or("attache <attache@localhost>");
        let from = from.parse().map_err(|error| format!("mail.from: {error}"))?;
        let way = match settings.transport {
            TransportKind::Files => Backend::Files(outbox),
            TransportKind::Smtp => Backend::Smtp(smtp_transport(&settings.smtp).ok_or("mail.smtp.url cannot be used")?),
        };
        Ok(Self { from, way })
    }

    /// Sends a mail, or writes it to a file.
    #[boxed]
    pub async fn deliver(&self, mail: &QueuedMail, now: Timestamp) -> Result<(), Undelivered> {
        let message = self.compose(mail, now)?;
        match &self.way {
            Backend::Smtp(server) => server.send(message).await.map(drop).map_err(|error| smtp_trouble(&error)),
            Backend::Files(folder) => {
                let name = format!("{}_{}", now.format(NAME_TIME), mail.id);
                let (folder, bytes) = (folder.clone(), message.formatted());
                let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes)).await;
                let path = written
                    .map_err(|_| Undelivered::for_now("writing the file panicked"))?
                    .map_err(|error| Undelivered::for_now(format!("the file cannot be written: {error}")))?;
                tracing::info!(mail.path = %path.display(), "a mail was written");
                Ok(())
            }
        }
    }

    fn compose(&self, mail: &QueuedMail, now: Timestamp) -> Result<Message, Undelivered> {
        let unusable = |what: &str| Undelivered::for_good(format!("{what} cannot be used"));
        let to: Address = mail.mail.to.as_str().parse().map_err(|_| unusable("the recipient's address"))?;
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(&mail.mail.subject)
            .date(now.into())
            .message_id(Some(format!("<{}@{}>", mail.id, self.from.email.domain())))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN)
            .body(mail.mail.text.clone())
            .map_err(|_| unusable("the mail"))
    }
}

/// Classifies an SMTP error. The server's text is not repeated: it often contains the address.
fn smtp_trouble(error: &smtp::Error) -> Undelivered {
    let Some(code) = error.status() else {
        let what = match error {
            error if error.is_timeout() => "the mail server did not answer in time",
            error if error.is_tls() => "no TLS with the mail server",
            error if error.is_client() => "the mail server lacks a required feature",
            _ => "the mail server cannot be reached",
        };
        return Undelivered::for_now(what);
    };
    let number = code.to_string();
    let what = format!("the mail server answered {number}");
    // 53x rejects the server's own credentials, which an operator can correct before the mail is too old.
    if error.is_permanent() && !number.starts_with("53") {
        Undelivered::for_good(what)
    } else {
        Undelivered::for_now(what)
    }
}

/// Writes the file atomically, so that a program that watches the folder never reads a partial mail.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut private = fs::DirBuilder::new();
    private.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
    private.create(folder)?;
    let (hidden, path) = (folder.join(format!(".{name}.tmp")), folder.join(format!("{name}.eml")));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // Mails are private and contain codes.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&hidden)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&hidden, &path)?;
    File::open(folder)?.sync_all()?;
    Ok(path)
}

/// The time at the start of a file name. The order of names is the order of times.
const NAME_TIME: &str = "%Y%m%dT%H%M%S%.3fZ";

/// Removes at most `most` mails written before this time, and partial files of a crash; returns their number. Other files stay.
pub fn remove_files(folder: &Path, before: Timestamp, most: usize) -> io::Result<usize> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut removed = 0;
    for entry in entries {
        if removed == most {
            break;
        }
        let entry = entry?;
        if entry.file_name().to_str().and_then(written_at).is_some_and(|written| written < before) {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// When a mail was written, from the name of its file.
fn written_at(name: &str) -> Option<Timestamp> {
    let name = name.strip_suffix(".eml").or_else(|| name.strip_prefix('.')?.strip_suffix(".tmp"))?;
    let (time, _) = name.split_once('_')?;
    chrono::NaiveDateTime::parse_from_str(time, NAME_TIME).ok().map(|time| time.and_utc())
}

/// Asks automatic responders not to reply (RFC 3834).
#[derive(Debug, Clone, Copy)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use domain::Rng;
    use domain::mail::OutgoingMail;

    use super::*;

    fn mail(to: &str, subject: &str) -> QueuedMail {
        let id = Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH).into();
        let mail = OutgoingMail { to: to.parse().unwrap(), subject: subject.into(), text: "Zoë's text.\n".into() };
        QueuedMail { id, mail }
    }

    #[tokio::test]
    async fn a_mail_becomes_a_file_that_only_its_owner_reads() {
        let folder = std::env::temp_dir().join(format!("attache-outbox-{}", std::process::id()));
        let transport = Transport::new(&MailSettings::default(), folder.clone()).unwrap();
        let mail = mail("ada@example.com", "News");
        transport.deliver(&mail, Timestamp::UNIX_EPOCH).await.unwrap();
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [format!("19700101T000000.000Z_{}.eml", mail.id).as_str()]);
        let path = folder.join(&names[0]);
        let text = fs::read_to_string(&path).unwrap();
        for line in [
            "From: attache <attache@localhost>\r\n",
            "To: ada@example.com\r\n",
            "Subject: News\r\n",
            "Date: Thu, 01 Jan 1970 00:00:00 +0000\r\n",
            &format!("Message-ID: <{}@localhost>\r\n", mail.id),
            "Auto-Submitted: auto-generated\r\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
        fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn old_mails_are_removed_from_the_folder_and_other_files_stay() {
        let folder = std::env::temp_dir().join(format!("attache-old-mails-{}", std::process::id()));
        assert_eq!(remove_files(&folder, Timestamp::UNIX_EPOCH, 9).unwrap(), 0, "no folder");
        let transport = Transport::new(&MailSettings::default(), folder.clone()).unwrap();
        let at = |seconds| Timestamp::UNIX_EPOCH + chrono::TimeDelta::seconds(seconds);
        for seconds in [0, 1, 2, 60] {
            let id = Rng::seeded(u64::try_from(seconds).unwrap()).uuid_v7(at(seconds)).into();
            transport.deliver(&QueuedMail { id, ..mail("ada@example.com", "News") }, at(seconds)).await.unwrap();
        }
        for name in [".19700101T000000.000Z_x.tmp", "notes.txt", "19700101T000000.000Z_notes.txt", "x.eml"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(remove_files(&folder, at(60), 3).unwrap(), 3);
        assert_eq!(remove_files(&folder, at(60), 3).unwrap(), 1);
        let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert!(names[1].to_str().unwrap().starts_with("19700101T000100.000Z_"), "{names:?}");
        names.remove(1);
        assert_eq!(names, ["19700101T000000.000Z_notes.txt", "notes.txt", "x.eml"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_in_a_mail_adds_a_header() {
        let transport = Transport::new(&MailSettings::default(), PathBuf::new()).unwrap();
        let message =
            transport.compose(&mail("ada@example.com", "News\r\nBcc: all@example.com"), Timestamp::UNIX_EPOCH);
        let text = String::from_utf8(message.unwrap().formatted()).unwrap();
        assert!(!text.lines().any(|line| line.starts_with("Bcc")), "{text}");
    }
}
