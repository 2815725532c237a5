//! A browser without a window: it stores cookies, follows no redirect, and sends the headers that name the origin of a form.

use std::cell::RefCell;
use std::collections::BTreeMap;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};

use crate::client::{Credential, Response};
use crate::world::{Person, World};

/// The browser of one person.
pub struct Browser<'w> {
    world: &'w World,
    cookies: RefCell<BTreeMap<String, String>>,
}

impl<'w> Browser<'w> {
    /// A browser without cookies.
    pub fn new(world: &'w World) -> Self {
        Self { world, cookies: RefCell::default() }
    }

    /// A browser with the session of this person.
    pub fn of(world: &'w World, person: &Person) -> Self {
        let Credential::Cookie(pair) = &person.cookie else { panic!("{person:?}") };
        let (name, value) = pair.split_once('=').unwrap();
        let browser = Self::new(world);
        browser.put(name, value);
        browser
    }

    /// Opens a URL as if a person typed it (`Sec-Fetch-Site: none`).
    pub async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, &[("sec-fetch-site", "none".to_owned())], None).await
    }

    /// Sends a form as a page of the server does.
    pub async fn submit(&self, path: &str, pairs: &[(&str, &str)]) -> Response {
        let headers =
            [("origin", self.world.server.app.urls.origin().to_owned()), ("sec-fetch-site", "same-origin".to_owned())];
        self.send(Method::POST, path, &headers, Some(pairs)).await
    }

    /// Sends a request with the cookies and stores the cookies of the response.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, String)],
        form: Option<&[(&str, &str)]>,
    ) -> Response {
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
        let response = self.world.send(request).await;
        for line in response.headers.get_all(SET_COOKIE) {
            let line = line.to_str().unwrap();
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            if line.contains("Max-Age=0;") {
                self.cookies.borrow_mut().remove(name);
            } else {
                self.cookies.borrow_mut().insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<String> {
        self.cookies.borrow().get(name).cloned()
    }

    /// Sets a cookie.
    pub fn put(&self, name: &str, value: &str) {
        self.cookies.borrow_mut().insert(name.to_owned(), value.to_owned());
    }

    /// All cookies, as in the header `Cookie`.
    pub fn header(&self) -> String {
        let cookies = self.cookies.borrow();
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    /// The cookies as a credential.
    pub fn credential(&self) -> Credential {
        Credential::Cookie(self.header())
    }

    /// Signs in with a code by e-mail.
    pub async fn sign_in(&self, email: &str) {
        let count = self.world.mails_to(email).len();
        self.submit("/signin", &[("email", email)]).await.goes_to("/signin/code");
        let code = self.world.code_to(email, count).await;
        self.submit("/signin/code", &[("code", &code)]).await.goes_to("/account");
    }
}

impl Response {
    /// Asserts a page with this status and the headers of every page; returns its HTML.
    #[track_caller]
    pub fn page(&self, status: u16) -> &str {
        let text = std::str::from_utf8(&self.body).unwrap();
        assert_eq!(self.status, status, "{text}");
        assert!(self.header("content-type").unwrap().starts_with("text/html"), "{self:?}");
        assert!(self.header("content-security-policy").unwrap().contains("default-src 'none'"));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        text
    }

    /// Asserts a redirect to this path with 303, after which a browser does not send the form again.
    #[track_caller]
    pub fn goes_to(&self, path: &str) {
        assert_eq!(
            (self.status, self.header("location")),
            (303, Some(path)),
            "{}",
            String::from_utf8_lossy(&self.body)
        );
    }

    /// The value of the header that sets this cookie.
    pub fn cookie_line(&self, name: &str) -> Option<&str> {
        let lines = self.headers.get_all(SET_COOKIE).iter().map(|line| line.to_str().unwrap());
        lines.into_iter().find(|line| line.starts_with(&format!("{name}=")))
    }
}

/// The sign-in code in a mail: eight digits.
pub fn code_in(mail: &str) -> String {
    let line = mail.lines().find(|line| line.starts_with("    ") && line.trim().len() == 9);
    line.unwrap_or_else(|| panic!("no code in {mail}")).replace(' ', "").trim().to_owned()
}

/// A code that differs from this one.
pub fn another_code(code: &str) -> String {
    format!("{:08}", (code.parse::<u32>().unwrap() + 1) % 100_000_000)
}
