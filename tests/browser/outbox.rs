//! The mails that the server has written as files.

use std::fs;

use crate::world::World;

/// The code in the newest of `count` mails to this address, as soon as they are there.
pub async fn mailed_code(world: &World, email: &str, count: usize) -> String {
    let mails = world
        .eventually("the mails are written", async || {
            let mails = mails(world, email);
            (mails.len() >= count).then_some(mails)
        })
        .await;
    let mail = mails.last().unwrap();
    // The one line that is digits and spaces.
    let code =
        mail.lines().map(|line| line.replace(' ', "")).find(|line| line.len() == 8 && line.parse::<u32>().is_ok());
    code.unwrap_or_else(|| panic!("no code in {mail}"))
}

/// All mails to this address, oldest first.
fn mails(world: &World, email: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(world.dir.path().join("data/outbox")) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    // Their names begin with the time.
    paths.sort();
    let mails = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "eml"));
    mails.map(|path| fs::read_to_string(path).unwrap()).filter(|mail| mail.contains(&format!("To: {email}"))).collect()
}
