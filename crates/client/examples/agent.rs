//! An agent registers, asks a person to confirm it, and polls for its access token.
//!
//! ```sh
//! cargo run --example agent -- http://127.0.0.1:8080
//! ```

use std::error::Error;

use client::{Client, Credential, Settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: agent URL")?;
    let attache = Client::new(&Settings::of(url))?;

    let registered = attache.register_anonymous().await?;
    let claim = attache.claim(&registered.claim_token, None).await?;
    println!("open {} and type {}", claim.verification_uri, claim.user_code.expose());

    // Polls at the interval that the server asks for, until the person confirms or the code expires.
    let tokens = attache.claimed(&registered.claim_token, &claim, |_| {}).await?;
    let agent = attache.with(Credential::Bearer(tokens.access_token));
    let summary = agent.account_summary().await?;
    println!("confirmed; the summary has version {}", summary.version);
    Ok(())
}
