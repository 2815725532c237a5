//! A browser without a window: it keeps cookies, follows nothing, and says where its forms come from.

use std::cell::RefCell;
use std::collections::BTreeMap;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};

use crate::world::{Answer, Credential, Person, World};

/// One person's browser.
pub struct Browser<'w> {
    world: &'w World,
    cookies: RefCell<BTreeMap<String, String>>,
}

impl<'w> Browser<'w> {
    pub fn new(world: &'w World) -> Self {
        Self { world, cookies: RefCell::default() }
    }

    /// The browser in which this person is signed in.
    pub fn of(world: &'w World, person: &Person) -> Self {
        let Credential::Cookie(pair) = &person.cookie else { panic!("{person:?}") };
        let (name, value) = pair.split_once('=').unwrap();
        let browser = Self::new(world);
        browser.put(name, value);
        browser
    }

    /// Opens a URL typed by the person (`Sec-Fetch-Site: none`).
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[("sec-fetch-site", "none".to_owned())], None).await
    }

    /// Sends a form as one of our own pages does.
    pub async fn submit(&self, path: &str, pairs: &[(&str, &str)]) -> Answer {
        let headers =
            [("origin", self.world.server.app.urls.origin().to_owned()), ("sec-fetch-site", "same-origin".to_owned())];
        self.send(Method::POST, path, &headers, Some(pairs)).await
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, String)],
        form: Option<&[(&str, &str)]>,
    ) -> Answer {
        let mut request = self.world.request(method, path, &Credential::None);
        let cookies = self.header();
        if !cookies.is_empty() {
            request = request.header(COOKIE, cookies);
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(pairs) = form {
            let body = serde_urlencoded::to_string(pairs).unwrap();
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
        }
        let answer = self.world.send(request).await;
        for line in answer.headers.get_all(SET_COOKIE) {
            let line = line.to_str().unwrap();
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            if line.contains("Max-Age=0;") {
                self.cookies.borrow_mut().remove(name);
            } else {
                self.cookies.borrow_mut().insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }

    pub fn cookie(&self, name: &str) -> Option<String> {
        self.cookies.borrow().get(name).cloned()
    }

    pub fn put(&self, name: &str, value: &str) {
        self.cookies.borrow_mut().insert(name.to_owned(), value.to_owned());
    }

    /// All cookies, as they are sent.
    pub fn header(&self) -> String {
        let cookies = self.cookies.borrow();
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    pub fn credential(&self) -> Credential {
        Credential::Cookie(self.header())
    }

    /// Asks for a code and types it.
    pub async fn sign_in(&self, email: &str) {
        let before = self.world.letters_to(email).len();
        self.submit("/signin", &[("email", email)]).await.goes_to("/signin/code");
        let code = self.world.code_to(email, before).await;
        self.submit("/signin/code", &[("code", &code)]).await.goes_to("/account");
    }
}

impl Answer {
    /// A page.
    #[track_caller]
    pub fn page(&self, status: u16) -> &str {
        let text = std::str::from_utf8(&self.body).unwrap();
        assert_eq!(self.status, status, "{text}");
        assert!(self.header("content-type").unwrap().starts_with("text/html"), "{self:?}");
        assert!(self.header("content-security-policy").unwrap().contains("default-src 'none'"));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        text
    }

    /// A redirect that makes a browser forget the form.
    #[track_caller]
    pub fn goes_to(&self, path: &str) {
        assert_eq!(
            (self.status, self.header("location")),
            (303, Some(path)),
            "{}",
            String::from_utf8_lossy(&self.body)
        );
    }

    /// The line that sets a cookie.
    pub fn cookie_line(&self, name: &str) -> Option<&str> {
        let lines = self.headers.get_all(SET_COOKIE).iter().map(|line| line.to_str().unwrap());
        lines.into_iter().find(|line| line.starts_with(&format!("{name}=")))
    }
}

impl World {
    /// Letters in the outbox for this address, oldest first.
    pub fn letters_to(&self, email: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.dir.path().join("data/outbox")) else { return Vec::new() };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
        paths.sort();
        let letters = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
        letters.filter(|mail| mail.contains(&format!("\r\nTo: {email}\r\n"))).collect()
    }

    /// The letter after so many others.
    pub async fn letter_to(&self, email: &str, after: usize) -> String {
        self.eventually("a letter came", async || self.letters_to(email).into_iter().nth(after)).await
    }

    /// The code in that letter.
    pub async fn code_to(&self, email: &str, after: usize) -> String {
        code_in(&self.letter_to(email, after).await)
    }
}

/// The eight digits in a letter.
pub fn code_in(mail: &str) -> String {
    let line = mail.lines().find(|line| line.starts_with("    ") && line.trim().len() == 9);
    line.unwrap_or_else(|| panic!("no code in {mail}")).replace(' ', "").trim().to_owned()
}

/// A code that is another one.
pub fn other(code: &str) -> String {
    format!("{:08}", (code.parse::<u32>().unwrap() + 1) % 100_000_000)
}
