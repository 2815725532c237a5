//! A person's program creates a space, adds two notes to it, follows the stream until they are stored, and searches them.
//!
//! ```sh
//! ATTACHE_KEY=ak_… cargo run --example batch -- http://127.0.0.1:8080
//! ```
//!
//! A key is created on the page `/account`.

use std::error::Error;

use client::{Client, Credential, Settings};
use domain::secret::Secret;
use wire::knowledge::{BatchMessage, BatchRequest, Note, SearchRequest};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: batch URL, with an API key in ATTACHE_KEY")?;
    let key = std::env::var("ATTACHE_KEY")?;
    let attache = Client::new(&Settings::of(url))?.with(Credential::Bearer(Secret::presented(&key)));

    let space = attache.space_create("examples", false).await?;
    let note =
        |title: &str, content: &str| Note { content: content.to_owned(), title: Some(title.to_owned()), kind: None };
    let request = BatchRequest {
        urls: None,
        contents: Some(vec![
            note("Harbour", "The harbour master keeps the tide tables of the north pier."),
            note("Bakery", "The bakery on the square sells rye bread on Thursdays."),
        ]),
        spaces: Some(vec![space.id.as_uuid()]),
    };

    // The stream is joined again after an interruption; dropping it does not stop the batch.
    let mut stream = attache.batch_add(&request).await?;
    while let Some(message) = stream.next().await {
        match message? {
            BatchMessage::Success { id, .. } => println!("stored memory {id}"),
            BatchMessage::Error { error, message, .. } => return Err(format!("{error}: {message}").into()),
            _ => {}
        }
    }

    let search = SearchRequest {
        query: Some("When can I buy bread?".to_owned()),
        limit: Some(1.0),
        spaces: Some(vec![space.id.as_uuid()]),
        ..SearchRequest::default()
    };
    for result in attache.search(&search).await?.results {
        println!("found {} with similarity {:.2}", result.title, result.similarity);
    }
    Ok(())
}
