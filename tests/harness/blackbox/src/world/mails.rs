//! Mails that the server writes to its outbox folder.

use super::World;
use crate::browser::code_in;
use crate::eventually;

impl World {
    /// The mails to this address so far, oldest first.
    pub fn mails_to(&self, email: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.dir.path().join("data/outbox")) else { return Vec::new() };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
        paths.sort();
        let mails = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
        mails.filter(|mail| mail.contains(&format!("\r\nTo: {email}\r\n"))).collect()
    }

    /// Waits for the mail to this address after `after` others.
    pub async fn mail_to(&self, email: &str, after: usize) -> String {
        eventually("a mail is written", async || self.mails_to(email).into_iter().nth(after)).await
    }

    /// The sign-in code in that mail.
    pub async fn code_to(&self, email: &str, after: usize) -> String {
        code_in(&self.mail_to(email, after).await)
    }
}
