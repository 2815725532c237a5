//! A real OpenID provider: the npm package `oidc-provider` as a child process, with accounts that need no password.
//!
//! In a browser, its page *Who are you?* has a button *Continue as …* per account, and *Refuse*. Without a browser, [`Provider::sign_in`]
//! and [`Provider::refuse`] follow the authorization URL to the redirect.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, Method, Response, Url};
use serde_json::json;

use crate::npm;

/// The program, in JavaScript.
const PROGRAM: &str = include_str!("../oidc/provider.mjs");

/// `client_id` of the only registered client.
pub const CLIENT_ID: &str = "attache-of-the-tests";
/// Its secret, sent with HTTP Basic.
pub const CLIENT_SECRET: &str = "secret-of-the-only-client";
/// More redirects than any honest sign-in has.
const REDIRECTS_MAX: usize = 10;

/// A person with an account at the provider.
#[derive(Debug, Clone)]
pub struct Account {
    /// `sub`.
    pub subject: String,
    /// `email`; absent from the claims if `None`.
    pub email: Option<String>,
    /// `email_verified`; absent from the claims if `None`.
    pub email_verified: Option<bool>,
    /// `groups`; absent from the claims if empty.
    pub groups: Vec<String>,
}

impl Account {
    /// A person with a verified e-mail address.
    pub fn verified(subject: &str, email: &str) -> Self {
        Self { subject: subject.into(), email: Some(email.into()), email_verified: Some(true), groups: Vec::new() }
    }

    /// A person with an unverified e-mail address.
    pub fn unverified(subject: &str, email: &str) -> Self {
        Self { email_verified: Some(false), ..Self::verified(subject, email) }
    }
}

/// Where a provider returns the e-mail claims (OpenID Connect Core, section 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmailClaims {
    /// At the userinfo endpoint only, as the specification has it for the code flow.
    Userinfo,
    /// In the ID token too, as the large providers have it.
    IdToken,
}

/// Claims that a dishonest provider, or one with a wrong clock, puts into its ID tokens instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forged {
    /// `azp`.
    pub authorized_party: Option<String>,
    /// `iat`, in seconds from now.
    pub issued_in: Option<i64>,
    /// `auth_time`, in seconds from now.
    pub signed_in_in: Option<i64>,
}

/// A running provider; it ends when this is dropped.
#[derive(Debug)]
pub struct Provider {
    /// `http://127.0.0.1:…`, without a slash at its end.
    pub issuer: String,
    client: Client,
    process: Child,
}

impl Provider {
    /// Starts a provider on a free port with `accounts` that redirects people to `redirect_uri`; on 127.0.0.1 the provider ignores the port
    /// of `redirect_uri`. `None` if the provider is not installed, which is reported on standard error.
    ///
    /// # Panics
    /// When it does not start, or is not installed although it is [`crate::postgres::required`].
    pub fn start(redirect_uri: &str, accounts: &[Account], email_claims: EmailClaims) -> Option<Self> {
        Self::forging(redirect_uri, accounts, email_claims, None)
    }

    /// The same with wrong claims.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[expect(clippy::expect_used, reason = "without its provider a test has nothing to show")]
    pub fn forging(
        redirect_uri: &str,
        accounts: &[Account],
        email_claims: EmailClaims,
        forged: Option<&Forged>,
    ) -> Option<Self> {
        let setup = json!({
            "packages": npm::packages()?,
            "client": { "id": CLIENT_ID, "secret": CLIENT_SECRET, "redirect_uri": redirect_uri },
            "accounts": accounts.iter().map(|account| json!({
                "subject": account.subject, "email": account.email, "email_verified": account.email_verified,
                "groups": account.groups,
            })).collect::<Vec<_>>(),
            "email_in_id_token": email_claims == EmailClaims::IdToken,
            "forged": forged.map(|forged| json!({
                "authorized_party": forged.authorized_party, "issued_in": forged.issued_in,
                "signed_in_in": forged.signed_in_in,
            })),
        });
        let mut process = Command::new("node")
            .args(["--input-type=module", "--eval", PROGRAM, "--"])
            .arg(setup.to_string())
            // Held open by this process: the child exits when it is closed, for any end of this process.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let mut issuer = String::new();
        let stdout = process.stdout.take().expect("its standard output is a pipe");
        BufReader::new(stdout).read_line(&mut issuer).expect("its standard output can be read");
        assert!(issuer.starts_with("http://"), "the OpenID provider does not start; it says why above");
        Some(Self { issuer: issuer.trim_end().to_owned(), client: client(), process })
    }

    /// Follows `authorization`, the URL that the product redirects to, through the provider as the person with this `subject`; returns the
    /// URL that the provider redirects back to, without a request to it.
    ///
    /// # Panics
    /// When the provider does not send them back.
    pub async fn sign_in(&self, authorization: &str, subject: &str) -> String {
        self.walk(authorization, &format!("account={subject}")).await
    }

    /// The same as a person who refuses: the provider sends them back with `error=access_denied`.
    ///
    /// # Panics
    /// When the provider does not send them back.
    pub async fn refuse(&self, authorization: &str) -> String {
        self.walk(authorization, "refuse=yes").await
    }

    /// Follows redirects inside the provider, submits its form with `form`, and stops at the redirect out of it.
    async fn walk(&self, authorization: &str, form: &str) -> String {
        let mut cookies = BTreeMap::new();
        let mut here: Url = authorization.parse().unwrap_or_else(|error| panic!("{authorization}: {error}"));
        let mut response = self.send(Method::GET, &here, None, &mut cookies).await;
        for _ in 0..REDIRECTS_MAX {
            let next = response.headers().get(LOCATION).map(|next| next.to_str().map(|next| here.join(next)));
            match next {
                Some(Ok(Ok(next))) if !next.as_str().starts_with(&format!("{}/", self.issuer)) => return next.into(),
                Some(Ok(Ok(next))) => {
                    here = next;
                    response = self.send(Method::GET, &here, None, &mut cookies).await;
                }
                None if response.status() == 200 && here.path().starts_with("/interaction/") => {
                    response = self.send(Method::POST, &here, Some(form), &mut cookies).await;
                }
                _ => panic!("{here}: {}: {}", response.status(), response.text().await.unwrap_or_default()),
            }
        }
        panic!("the provider does not come to an end: {here}")
    }

    /// One request of a browser that stores cookies and ignores their paths.
    async fn send(
        &self,
        method: Method,
        url: &Url,
        form: Option<&str>,
        cookies: &mut BTreeMap<String, String>,
    ) -> Response {
        let kept: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = self.client.request(method, url.clone()).header(COOKIE, kept.join("; "));
        if let Some(form) = form {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.to_owned());
        }
        let response = request.send().await.unwrap_or_else(|error| panic!("{url}: {error}"));
        for cookie in response.headers().get_all(SET_COOKIE) {
            let pair = cookie.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // Fails only if it has ended already, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::expect_used, reason = "without its provider a test has nothing to show")]
fn client() -> Client {
    // Fails if it is installed already in this process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().expect("a plain client")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const REDIRECT: &str = "http://127.0.0.1/back";

    fn authorization(provider: &Provider) -> String {
        // RFC 7636, appendix B.
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        format!(
            "{}/auth?client_id={CLIENT_ID}&response_type=code&scope=openid%20email&state=s1&nonce=n1\
             &redirect_uri=http%3A%2F%2F127.0.0.1%3A4321%2Fback&code_challenge={challenge}&code_challenge_method=S256",
            provider.issuer
        )
    }

    async fn userinfo_of(provider: &Provider, subject: &str) -> Value {
        let back = provider.sign_in(&authorization(provider), subject).await;
        let back: Url = back.parse().unwrap();
        assert_eq!(back.origin().ascii_serialization(), "http://127.0.0.1:4321");
        let query: BTreeMap<_, _> = back.query_pairs().into_owned().collect();
        assert_eq!(query["state"], "s1");
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let form = format!(
            "grant_type=authorization_code&code={}&redirect_uri=http%3A%2F%2F127.0.0.1%3A4321%2Fback&code_verifier={verifier}",
            query["code"]
        );
        let tokens = provider
            .client
            .post(format!("{}/token", provider.issuer))
            .basic_auth(CLIENT_ID, Some(CLIENT_SECRET))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        let tokens: Value = tokens.send().await.unwrap().json().await.unwrap();
        let token = tokens["access_token"].as_str().unwrap_or_else(|| panic!("{tokens}"));
        let userinfo = provider.client.get(format!("{}/me", provider.issuer)).bearer_auth(token);
        userinfo.send().await.unwrap().json().await.unwrap()
    }

    #[tokio::test]
    async fn people_return_as_the_account_they_chose() {
        let accounts = [Account::verified("sub-jo", "jo@example.com"), Account::unverified("sub-mo", "mo@example.com")];
        let Some(provider) = Provider::start(REDIRECT, &accounts, EmailClaims::Userinfo) else { return };
        let jo = userinfo_of(&provider, "sub-jo").await;
        assert_eq!(jo, json!({ "sub": "sub-jo", "email": "jo@example.com", "email_verified": true }));
        let mo = userinfo_of(&provider, "sub-mo").await;
        assert_eq!(mo, json!({ "sub": "sub-mo", "email": "mo@example.com", "email_verified": false }));
    }

    #[tokio::test]
    async fn people_who_refuse_return_without_a_code() {
        let Some(provider) = Provider::start(REDIRECT, &[], EmailClaims::IdToken) else { return };
        let back: Url = provider.refuse(&authorization(&provider)).await.parse().unwrap();
        let query: BTreeMap<_, _> = back.query_pairs().into_owned().collect();
        assert_eq!((query["error"].as_str(), query.get("code")), ("access_denied", None));
    }
}
